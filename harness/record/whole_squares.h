#pragma once

#include <cstdint>

namespace lockstep {

/// An exact sum of squares of whole numbers: of fewer than 2^66 of them.
struct WholeSquares {
  std::uint64_t low;
  std::uint64_t middle;
  std::uint64_t high;

  bool operator==(const WholeSquares&) const = default;
};

/// Adds a number of 128 bits.
constexpr void add(WholeSquares& sum, std::uint64_t low, std::uint64_t middle) {
  sum.low += low;
  const std::uint64_t with_carry = middle + (sum.low < low ? 1 : 0);
  sum.middle += with_carry;
  sum.high += (with_carry < middle ? 1 : 0) + (sum.middle < with_carry ? 1 : 0);
}

constexpr void add(WholeSquares& sum, WholeSquares more) {
  add(sum, more.low, more.middle);
  sum.high += more.high;
}

/// Adds the square of `value`.
constexpr void add_square(WholeSquares& sum, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = value < 0 ? 0 - bits : bits;
  const std::uint64_t upper = magnitude >> 32;  // at most 2^31
  const std::uint64_t lower = magnitude & 0xffffffffU;
  const std::uint64_t mixed = upper * lower;  // counts twice, and 2^32 times
  const std::uint64_t low = lower * lower + (mixed << 33);
  const std::uint64_t carry = low < (mixed << 33) ? 1 : 0;
  add(sum, low, upper * upper + (mixed >> 31) + carry);
}

/// The root of the sum: the sum is rounded to float64 first.
double root_of(const WholeSquares& sum);

}  // namespace lockstep
