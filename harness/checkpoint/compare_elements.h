#pragma once

#include <cstdint>
#include <vector>

#include "harness/checkpoint/checkpoint.h"

namespace lockstep {

/// Two tensors of one shape, A and B, compared element by element.
struct ElementDifferences {
  std::int64_t elements = 0;  ///< of each
  /// That have not the same bits; of tensors of two types, not the same value.
  std::int64_t differing = 0;
  std::int64_t rows = 0;            ///< along the first dimension
  std::int64_t differing_rows = 0;  ///< that have such an element
  double apart = 0;                 ///< L2 of B - A, of the elements that are finite on both sides

  /// Each element of one side is a nearest number, in its type, to that of the other side.
  bool is_rounded = true;

  /// The largest error, in units in the last place of the coarser type; in whole numbers if both
  /// have no fraction. Infinite if an element is finite on one side only.
  double ulps = 0;
  std::vector<std::int64_t> place;  ///< of that element; empty: none differs
  double value_a = 0;               ///< there; of a complex element its component
  double value_b = 0;
};

/// Reads both tensors block by block, in linear time, whatever their chunks are. Requires: they
/// have the same shape, and as many components per element. Throws Error (usage) if a chunk is
/// malformed.
ElementDifferences compare_elements(const CheckpointTensor& a, const CheckpointTensor& b);

}  // namespace lockstep
