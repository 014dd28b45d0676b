#include "harness/record/whole_squares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace lockstep {
namespace {

using Sum128 = unsigned __int128;

/// The lower two words.
Sum128 lower(const WholeSquares& sum) { return Sum128{sum.middle} << 64 | sum.low; }

TEST(WholeSquares, AreExactForEveryMagnitude) {
  std::mt19937_64 random(1);
  for (int bits = 1; bits <= 64; ++bits) {
    WholeSquares sum{};
    Sum128 expected = 0;
    for (int i = 0; i < 100; ++i) {
      const auto value = static_cast<std::int64_t>(random()) >> (64 - bits);
      const Sum128 magnitude =
          value < 0 ? Sum128{0} - static_cast<Sum128>(value) : static_cast<Sum128>(value);
      if (magnitude > Sum128{1} << 60) continue;  // 100 squares fit into 128 bits
      add_square(sum, value);
      expected += magnitude * magnitude;
    }
    EXPECT_EQ(sum.high, 0U) << bits;
    EXPECT_TRUE(lower(sum) == expected) << bits;
    EXPECT_EQ(root_of(sum), std::sqrt(static_cast<double>(expected))) << bits;
  }
}

TEST(WholeSquares, CarryIntoTheHighestWord) {
  WholeSquares sum{};
  for (int i = 0; i < 8; ++i) add_square(sum, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(sum, (WholeSquares{0, 0, 2})) << "8 times 2^126";
  EXPECT_EQ(root_of(sum), 0x1p64 * std::sqrt(2.0));
  add_square(sum, 1);
  EXPECT_EQ(sum, (WholeSquares{1, 0, 2}));
  WholeSquares full{~std::uint64_t{0}, ~std::uint64_t{0}, 6};
  add(full, {1, 0, 0});
  EXPECT_EQ(full, (WholeSquares{0, 0, 7}));
  full = {~std::uint64_t{0}, ~std::uint64_t{0}, 6};
  add(full, full);
  EXPECT_EQ(full, (WholeSquares{~std::uint64_t{1}, ~std::uint64_t{0}, 13}));
}

TEST(WholeSquares, HaveARootOfTheSumRoundedOnce) {
  EXPECT_EQ(root_of({}), 0.0);
  EXPECT_EQ(root_of({49, 0, 0}), 7.0);
  // 2^64 + 2^11 lies between two numbers of float64, and what is added decides.
  const double even = 0x1p64, next = 0x1p64 + 0x1p12;
  EXPECT_EQ(root_of({1U << 11, 1, 0}), std::sqrt(even));
  EXPECT_EQ(root_of({(1U << 11) + 1, 1, 0}), std::sqrt(next));
  EXPECT_EQ(root_of({(1U << 11) - 1, 1, 0}), std::sqrt(even));
  // The same of 2^128, decided by a bit of the lowest word.
  const double high = 0x1p128, above = 0x1p128 + 0x1p76;
  EXPECT_EQ(root_of({0, 1U << 11, 1}), std::sqrt(high));
  EXPECT_EQ(root_of({1, 1U << 11, 1}), std::sqrt(above));
}

}  // namespace
}  // namespace lockstep
