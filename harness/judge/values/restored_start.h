#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/judge/evidence/step_view.h"
#include "harness/judge/values/distance.h"
#include "harness/judge/values/largest_margin.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Whether parameters of a job that differ before its first step are those of a training which
/// perturbed its weights since the forward pass and took that back by arithmetic, as
/// sharpness-aware minimization does. Ranks round that otherwise, and began with the same weights.
///
/// They are if at least half of the parameters differ, and each that does by at most 4 unit
/// roundoffs of its norm, or of 0.01 of the norm of all if that is more: what was added and taken
/// back may be larger than the parameter.
class RestoredStart {
 public:
  /// Adds a parameter in the step `step` in which it was first observed. `values`: one per group of
  /// equal ranks.
  void add(const StepView& step, const std::vector<Holder>& values);

  /// `compared`: parameters that were compared before their first step.
  bool includes_all(std::size_t compared) const {
    return near_ > 1 && far_ == 0 && 2 * near_ >= compared;
  }

  /// Fills verdict, margin and tolerance of a claim that holds in this sense.
  void write(ClaimResult& result) const;

 private:
  bool is_near(const StepView& step, const std::vector<Holder>& values);

  std::size_t near_ = 0;
  std::size_t far_ = 0;
  LargestMargin largest_apart_;
};

}  // namespace lockstep
