#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/record/dtype.h"

namespace lockstep {

/// Numbers about a tensor's elements, for people to read; verdicts use digests and kept
/// values. The two components of a complex element count as two.
struct Statistics {
  double norm = 0;      ///< L2, in float64; an element that is not finite counts as 0
  std::string minimum;  ///< smallest finite element, exact decimal (integers in full); empty
                        ///< when there is none
  std::string maximum;  ///< largest
  std::int64_t non_finite = 0;  ///< NaN and infinities

  bool operator==(const Statistics&) const = default;
};

/// Statistics of `bytes`, elements of `dtype` one behind the other. -0.0 reads as 0.
Statistics statistics(DType dtype, std::span<const std::byte> bytes);

}  // namespace lockstep
