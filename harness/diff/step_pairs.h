#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/ratio_meaning.h"
#include "harness/diff/diff_side.h"
#include "harness/diff/whole_tensors.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// The tensors of one side in a step and after the step before.
struct SideStep {
  std::shared_ptr<const StepView> view;
  WholeTensors tensors;
  WholeTensors before;  ///< parameters before the optimizer's step, by `before_step_key`
  std::string before_unknown = {};  ///< why none is known; empty: some are
};

/// One side, step after step. The parameters before a step are those that were observed there, or
/// else those after the step before, unless the job wrote to them in between.
class SideSteps {
 public:
  using Tensors = std::vector<std::pair<WholeTensorKey, WholeTensor>>;

  /// `is_new`: whether the names are those of B. Both outlive this.
  SideSteps(const SideFiles& files, const NameMap& names, bool is_new)
      : files_(files), names_(names), is_new_(is_new) {}

  SideStep at(std::int64_t step);

 private:
  WholeTensors tensors_of(const StepView& view) const;
  std::string add_step_before(std::int64_t step, Tensors& before);
  bool has_untold_writes();

  const SideFiles& files_;
  const NameMap& names_;
  bool is_new_;
  Tensors after_;  ///< the last step's parameters
  std::int64_t last_ = -1;
  std::optional<bool> has_untold_writes_;
};

/// A tensor of one quantity of a step on both sides.
struct TensorPair {
  Compared quantity = Compared::gradient;
  std::string name;  ///< of an optimizer state: "layer.weight: exp_avg"
  WholeTensor a;
  WholeTensor b;
  /// That of each rank of B, if ranks hold different values of a tensor that none divides. Of an
  /// update, its parameter was the same before.
  std::vector<WholeTensor> of_ranks = {};
  std::vector<int> ranks = {};  ///< on which both are; empty: on all together
};

/// "layer.weight", also of the optimizer state "layer.weight: exp_avg".
std::string parameter_of(const TensorPair& pair);

/// Buffers that decide.
struct DecidingBuffers {
  std::set<std::string> states;                      ///< that ranks share, on both sides
  std::array<std::set<std::string>, 2> lone_states;  ///< of A, and of B, that the other side lacks
  bool are_statistics_of_same = false;  ///< each rank of both sides saw the same samples
};

/// The tensors to compare in a step, in the order of execution: losses, gradients, updates,
/// optimizer states and buffers that both sides observed, and what one side lacks of them.
std::vector<TensorPair> pairs_of(const SideStep& a, const SideStep& b,
                                 const DecidingBuffers& buffers);

/// Adds the sizes of a step that `watch --data` saw: of rank 0 and, if they differ, of all ranks.
void add_sizes(const StepView& step, std::vector<KnownSize>& sizes);

}  // namespace lockstep
