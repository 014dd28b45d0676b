#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/values/held_tensors.h"

namespace lockstep {

/// The first step in which a rank of a job does not step parameters that others step, such as those
/// of an optimizer that it leaves out.
class UnevenSteps {
 public:
  /// Sees a parameter that some ranks lack in a step, and hold in others. Steps ascend.
  void see(const HeldTensor& place, const StepView& step);

  /// "rank 1 did not step 3.weight and 1 more in step 1, which rank 0 did"; empty: all step all.
  std::string in_words() const;

  /// Whether there is one, up to a step.
  bool is_before(std::int64_t step) const { return !names_.empty() && step_ <= step; }

 private:
  void begin(const HeldTensor& place, const StepView& step);

  std::int64_t step_ = 0;  ///< 0: none yet
  int rank_ = -1;          ///< that lacks them; -1: none
  int other_ = 0;          ///< that stepped them
  std::vector<std::string> names_;
};

}  // namespace lockstep
