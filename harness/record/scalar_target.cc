#include "harness/record/scalar_target.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "harness/record/place_keys.h"
#include "harness/record/splitmix64.h"

namespace lockstep {

SketchBlock sketch_block(std::uint64_t number) {
  const std::uint64_t signs = splitmix64(number * kSplitmixStep);
  return {signs, static_cast<std::size_t>(splitmix64(signs) >> 58)};
}

Digest scalar_words(const std::byte* bytes, std::size_t words, std::size_t place) {
  const std::uint32_t* const low_keys = kPlaceKeys.low.data() + place;
  const std::uint32_t* const high_keys = kPlaceKeys.high.data() + place;
  Digest sum;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    sum.low += std::uint64_t{word} * low_keys[i];
    sum.high += std::uint64_t{word} * high_keys[i];
  }
  return sum;
}

namespace {

/// Component `begin` of the global tensor, in the lane that it belongs to.
void add_to_lane(double value, std::uint64_t begin, const SketchBlock& block, ComponentSums& sums) {
  const std::size_t j = begin % ComponentSums::kLanes;
  const std::uint64_t sign = (block.signs >> j & 1) << 63;
  sums.lanes[j ^ block.lane] += std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ sign);
}

void add_to_statistics(double value, std::size_t number, ComponentSums& sums) {
  sums.least = value < sums.least ? value : sums.least;
  sums.most = value > sums.most ? value : sums.most;
  sums.squares[number % ComponentSums::kSquares] += value * value;
}

}  // namespace

void add_components(DType component, const std::byte* bytes, std::size_t count, std::uint64_t begin,
                    std::size_t number, bool is_sketched, ComponentSums& sums) {
  const std::size_t size = item_size(component);
  SketchBlock block{};
  for (std::size_t i = 0; i < count; ++i) {
    const double value = component_value(component, bytes + i * size);
    const bool is_finite = std::isfinite(value);
    if (is_finite) {
      add_to_statistics(value, number + i, sums);
    } else {
      ++sums.non_finite;
    }
    if (!is_sketched) continue;
    const std::uint64_t at = begin + i;
    if (i == 0 || at % ComponentSums::kLanes == 0) block = sketch_block(at / ComponentSums::kLanes);
    add_to_lane(is_finite ? value : 0.0, at, block, sums);
  }
}

}  // namespace lockstep
