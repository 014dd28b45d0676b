#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "harness/record/component_sums.h"
#include "harness/record/dtype.h"
#include "harness/record/tensor_bytes.h"

namespace lockstep {

/// An exact element of a tensor: a whole number, a floating-point number, or none.
using Extreme = std::variant<std::monostate, std::int64_t, double>;

/// The shortest text that reads back as the number; empty for none.
std::string to_text(const Extreme& extreme);

/// Statistics of a tensor's elements for human readers; verdicts use digests and snapshots. The two
/// components of a complex element count as two.
struct Statistics {
  double norm = 0;              ///< L2, in float64; a non-finite element counts as 0
  Extreme minimum;              ///< smallest finite element; empty if there is none
  Extreme maximum;              ///< largest
  std::int64_t non_finite = 0;  ///< number of NaNs and infinities

  bool operator==(const Statistics&) const = default;
};

/// Statistics of `bytes`, contiguous elements of `dtype`. -0.0 reads as 0.
Statistics statistics(DType dtype, std::span<const std::byte> bytes);

/// Whether the statistics need more than the sums of a pass: squares would overflow or underflow.
bool needs_bytes(DType dtype, const ComponentSums& sums);

/// Whether there are sums of this type for which `needs_bytes`.
bool may_need_bytes(DType dtype);

/// The same, if a pass has added up the components. Reads the bytes again if it `needs_bytes`.
Statistics statistics(DType dtype, const TensorBytes& bytes, const ComponentSums& sums);

}  // namespace lockstep
