#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "harness/record/splitmix64.h"

namespace lockstep {

/// Sums over the components of a tensor, as far as they were added. Every order of additions is
/// fixed, so all processors and all ways of adding give the same bits.
struct ComponentSums {
  static constexpr std::size_t kSquares = 8;
  static constexpr std::size_t kLanes = 64;

  /// Sums of squares in float64. The i-th component of a part is in lane i mod 8.
  std::array<double, kSquares> squares{};
  double least = std::numeric_limits<double>::infinity();  ///< of the finite components
  double most = -std::numeric_limits<double>::infinity();
  std::int64_t non_finite = 0;

  /// Of whole numbers, instead of those above. While the squares add up to less than 2^53, each
  /// order of additions in float64 gives their exact sum.
  std::int64_t least_whole = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_whole = std::numeric_limits<std::int64_t>::min();
  std::uint64_t whole_squares = 0;
  bool are_squares_exact = true;  ///< else `whole_squares` means nothing

  std::array<double, kLanes> lanes{};  ///< of the sketch
};

/// What a pass computes in addition to the statistics.
struct TensorParts {
  bool digest = false;
  bool sketch = false;
};

/// Where the components of a block of 64 go in a sketch: component j to lane j xor `lane`, negative
/// if bit j of `signs` is set.
struct SketchBlock {
  std::uint64_t signs;
  std::size_t lane;
};

/// Of block `number` of the global tensor.
constexpr SketchBlock sketch_block(std::uint64_t number) {
  const std::uint64_t signs = splitmix64(number * kSplitmixStep);
  return {signs, static_cast<std::size_t>(splitmix64(signs) >> 58)};
}

}  // namespace lockstep
