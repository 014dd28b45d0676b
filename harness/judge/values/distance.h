#pragma once

#include <optional>

#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// How far the values of a tensor on two ranks are apart.
struct Distance {
  double relative = 0;           ///< L2 of right - left, over the larger norm of the two
  double absolute = 0;           ///< L2 of right - left
  std::optional<double> ratio;   ///< <right, left> / <left, left>; absent when that is 0
  std::optional<double> cosine;  ///< absent when a norm is 0
  double residual = 0;           ///< L2 of right - ratio * left, over the norm of right
  std::optional<double> error;   ///< of an estimate from sketches: that of `absolute`, relative
};

/// A tensor on a rank.
struct Holder {
  int rank = 0;
  const Observation* value = nullptr;
};

/// The distance by snapshots, if both are stored, else by sketches. Empty without either, and for
/// values of different dtypes or shapes. Components that are not finite count as 0.
std::optional<Distance> distance_between(const StepView& step, const Holder& left,
                                         const Holder& right);

}  // namespace lockstep
