#include "harness/record/scalar_target.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "harness/record/place_keys.h"

namespace lockstep {

Digest scalar_words(const std::byte* bytes, std::size_t words, std::size_t place) {
  const std::uint32_t* const low_keys = kPlaceKeys.low.at + place;
  const std::uint32_t* const high_keys = kPlaceKeys.high.at + place;
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

/// Component `begin` of the global tensor, in the lanes that it belongs to.
void add_to_lanes(double value, std::uint64_t begin, const SketchBlock& block,
                  ComponentSums& sums) {
  const std::size_t j = begin % ComponentSums::kLanes;
  const std::uint64_t sign = (block.signs >> j & 1) << 63;
  const auto of_first = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ sign);
  sums.lanes[j ^ block.lane] += of_first;
  double* const second = sums.lanes.data() + ComponentSums::kLanes;
  second[j ^ block.second_lane] += block.is_second_negative ? -of_first : of_first;
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
    add_to_lanes(is_finite ? value : 0.0, at, block, sums);
  }
}

void add_whole_numbers(DType component, const std::byte* bytes, std::size_t count,
                       ComponentSums& sums) {
  const std::size_t size = item_size(component);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t value = whole_value(component, bytes + i * size);
    sums.least_whole = std::min(sums.least_whole, value);
    sums.most_whole = std::max(sums.most_whole, value);
    add_square(sums.whole_squares, value);
  }
}

}  // namespace lockstep
