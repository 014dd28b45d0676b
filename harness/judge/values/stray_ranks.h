#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/judge/values/held_tensors.h"

namespace lockstep {

/// Ranks of a job that stepped optimizers of their own. Each rank numbers its steps itself, so the
/// later ones of such a rank are other updates than those of the others with the same numbers.
///
/// A rank strays in a step in which it has none of the tensors that another rank has there, but
/// others, and in other steps holds some of them. A rank that only lacks tensors does not: that is
/// a fault of the training, such as a layer that is frozen there.
class StrayRanks {
 public:
  using RanksByName = std::map<std::string, std::vector<int>>;  ///< ascending

  StrayRanks(const CellEvidence& cell, const Claim& claim);

  /// Sees what the ranks hold in a step. Steps ascend.
  void see(std::int64_t step, const HeldTensors& tensors);

  /// Without the ranks that strayed up to now.
  void leave_out(HeldTensor& tensor) const;

  /// "rank 0 stepped optimizers in step 4 that rank 1 did not (probe.weight), so ..."; empty: no
  /// rank strayed.
  const std::string& in_words() const { return words_; }

 private:
  bool may_stray(int rank, const std::set<std::string>& others) const;

  RanksByName holders_;  ///< in any step
  std::set<int> ranks_;  ///< that strayed
  std::string words_;    ///< about the first
};

}  // namespace lockstep
