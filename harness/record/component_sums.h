#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "harness/record/splitmix64.h"
#include "harness/record/whole_squares.h"

namespace lockstep {

/// Sums over the components of a tensor, as far as they were added. Every order of additions is
/// fixed, so all processors and all ways of adding give the same bits.
struct ComponentSums {
  static constexpr std::size_t kSquares = 8;
  static constexpr std::size_t kLanes = 64;  ///< of a sketch; so many components are a block
  static constexpr std::size_t kSketches = 2;

  /// Sums of squares in float64. The i-th component of a part is in lane i mod 8.
  std::array<double, kSquares> squares{};
  double least = std::numeric_limits<double>::infinity();  ///< of the finite components
  double most = -std::numeric_limits<double>::infinity();
  std::int64_t non_finite = 0;

  /// Of whole numbers, instead of those above.
  std::int64_t least_whole = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_whole = std::numeric_limits<std::int64_t>::min();
  WholeSquares whole_squares{};

  std::array<double, kSketches * kLanes> lanes{};  ///< of one sketch after the other
};

/// What a pass computes in addition to the statistics.
struct TensorParts {
  bool digest = false;
  bool sketch = false;
};

/// Blocks of a group. Its components go to other places in the second sketch than those of another
/// group, and those of its blocks to other places than each other.
inline constexpr std::size_t kGroup = 8;

/// Where a group of blocks goes in the second sketch: to the lanes of its blocks there, xor `lane`,
/// and with the other sign if `is_negative`. Two such turns make one.
struct SketchTurn {
  std::size_t lane = 0;
  bool is_negative = false;

  constexpr SketchTurn operator^(const SketchTurn& other) const {
    return {lane ^ other.lane, is_negative != other.is_negative};
  }
};

/// Of group `number` of the global tensor.
constexpr SketchTurn sketch_turn(std::uint64_t number) {
  const std::uint64_t drawn = splitmix64(~number);
  return {static_cast<std::size_t>(drawn >> 58), (drawn & 1) != 0};
}

/// By so much the lane of a component in the second sketch differs from that in the first one, for
/// block `number` of the global tensor and before the turn of its group: by whole vectors of all
/// processors, and by another number for each block of a group.
constexpr std::size_t lane_in_group(std::uint64_t number) { return number % kGroup * 8; }

/// Where the components of a block of 64 go in the sketches. In the first one, component j goes to
/// lane j xor `lane`, negative if bit j of `signs` is set; in the second one to lane j xor
/// `second_lane`, negative if that bit and `is_second_negative` are not the same.
struct SketchBlock {
  std::uint64_t signs;
  std::size_t lane;
  std::size_t second_lane;
  bool is_second_negative;
};

/// Of block `number` of the global tensor.
constexpr SketchBlock sketch_block(std::uint64_t number) {
  const std::uint64_t signs = splitmix64(number * kSplitmixStep);
  const auto lane = static_cast<std::size_t>(splitmix64(signs) >> 58);
  const SketchTurn turn = sketch_turn(number / kGroup);
  return {signs, lane, lane ^ lane_in_group(number) ^ turn.lane, turn.is_negative};
}

}  // namespace lockstep
