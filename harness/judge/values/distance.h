#pragma once

#include <optional>

#include "harness/compare/apart.h"
#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// How far the values of a tensor on two ranks are apart.
struct Distance : Apart {
  double relative = 0;          ///< `norm` over the larger norm of the two
  std::optional<double> error;  ///< of an estimate from sketches: that of `norm`, relative
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
