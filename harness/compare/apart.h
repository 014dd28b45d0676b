#pragma once

#include <optional>
#include <vector>

#include "harness/compare/value.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// How far two tensors are apart, and in which direction.
struct Apart {
  double norm = 0;               ///< L2 of right - left
  double left = 0;               ///< L2
  double right = 0;              ///< L2
  std::optional<double> ratio;   ///< <right, left> / <left, left>; absent when that is 0
  std::optional<double> cosine;  ///< absent when a norm is 0
  double rest = 0;               ///< L2 of right - `ratio` * left
};

/// Of all components, of as many on both sides.
Apart apart_of(const std::vector<double>& left, const std::vector<double>& right);

/// Estimates, exact for tensors of at most `Sketch::kLanes` components.
Apart apart_of(const Sketch& left, const Sketch& right);

/// Whether all components of both are known, as many on both sides.
bool have_numbers(const Value& left, const Value& right);

/// By all components, else by sketches; absent: neither is known. Components that are not finite
/// count as 0.
std::optional<Apart> apart_of(const Value& left, const Value& right);

}  // namespace lockstep
