#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_view.h"
#include "harness/record/digest.h"
#include "harness/record/dtype.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// A gradient and what its ranks contributed to it. Where ranks divide it, that of each rank is the
/// whole one that it holds with others.
struct ContributedGradient {
  std::string name;
  DType dtype = DType::float32;
  std::int64_t components = 0;
  std::vector<std::vector<int>> groups;  ///< of ranks with the same bits
  std::map<int, Sketch> values;          ///< before the optimizer's step
  std::map<int, Sketch> contributions;
  /// The latest backward pass before the last one, from 1, after which all ranks had the same bits;
  /// 0: there is none.
  std::int64_t early_pass = 0;
  std::map<int, Sketch> ended;  ///< when the last backward pass had ended
  std::map<int, Digest> ended_bits;
  double size = 0;      ///< mean of the norms of the contributions
  double summands = 1;  ///< of a contribution, of a rank

  Sketch mean;  ///< of the contributions
  /// Those of the first summands, without one or more of the last, if there are several.
  std::vector<Sketch> early_means;

  double ranks() const { return static_cast<double>(contributions.size()); }

  /// The mean of the contributions of some ranks.
  Sketch mean_of(const std::vector<int>& some) const;

  /// Of all but one: of many ranks each is left out in turn.
  Sketch mean_without(int rank) const;

  std::vector<int> all_ranks() const;
  std::vector<int> ranks_without(int rank) const;
};

/// Ranks, ascending, by the name of a gradient.
using RanksByGradient = std::map<std::string, std::vector<int>>;

/// Shows `see` each gradient of a step whose contributions are known, on at least two ranks; one at
/// a time, since the sketches of many ranks are large. Returns those that none of their ranks has,
/// nor had when a pass had ended, although these contributed. `unshared`: names to leave out.
RanksByGradient see_contributed_gradients(
    const StepView& step, const std::set<std::string>& unshared,
    const std::function<void(const ContributedGradient&)>& see);

}  // namespace lockstep
