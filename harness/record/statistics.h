#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "harness/record/dtype.h"

namespace lockstep {

/// An element of a tensor, exact: a whole number, a floating-point one, or nothing.
using Extreme = std::variant<std::monostate, std::int64_t, double>;

/// The shortest text that reads back as the number; empty for nothing.
std::string to_text(const Extreme& extreme);

/// Numbers about a tensor's elements, for people to read; verdicts use digests and kept
/// values. The two components of a complex element count as two.
struct Statistics {
  double norm = 0;              ///< L2, in float64; an element that is not finite counts as 0
  Extreme minimum;              ///< smallest finite element; nothing when there is none
  Extreme maximum;              ///< largest
  std::int64_t non_finite = 0;  ///< NaN and infinities

  bool operator==(const Statistics&) const = default;
};

/// Statistics of `bytes`, elements of `dtype` one behind the other. -0.0 reads as 0.
Statistics statistics(DType dtype, std::span<const std::byte> bytes);

}  // namespace lockstep
