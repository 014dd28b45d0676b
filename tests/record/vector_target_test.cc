// Every instruction set of this processor gives the bits of the scalar code.

#include "harness/record/vector_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "harness/record/component_pass.h"
#include "harness/record/measure.h"
#include "harness/record/scalar_target.h"
#include "harness/record/statistics.h"
#include "tests/record/shape_with.h"

namespace lockstep {
namespace {

const VectorTarget& scalar() { return *supported_targets().back(); }

/// Restores the fastest target at the end of a test.
class VectorTargets : public testing::Test {
 protected:
  ~VectorTargets() override { use_target(*supported_targets().front()); }
};

constexpr DType kFloating[] = {DType::float32, DType::bfloat16, DType::float16, DType::float64};

enum class Content { drawn, subnormal, with_special, special };

/// One component of `dtype`, from random bits.
void draw(DType dtype, Content content, std::mt19937_64& random, std::byte* at) {
  const std::uint64_t bits = random();
  const bool is_special =
      content == Content::special || (content == Content::with_special && bits % 50 == 0);
  const std::uint64_t which = bits >> 32;
  const std::uint64_t sign = bits >> 63;
  const std::size_t size = item_size(dtype);
  const unsigned fraction = dtype == DType::float64    ? 52
                            : dtype == DType::float32  ? 23
                            : dtype == DType::bfloat16 ? 7
                                                       : 10;
  const std::uint64_t low = bits & ((std::uint64_t{1} << fraction) - 1);
  const std::uint64_t top = (std::uint64_t{1} << (8 * size - 1 - fraction)) - 1;  // exponent
  std::uint64_t exponent = top / 2 - 8 + which % 16;
  if (content == Content::subnormal) exponent = which % 3 == 0 ? 1 : 0;
  if (is_special) exponent = top;
  const std::uint64_t value =
      sign << (8 * size - 1) | exponent << fraction | (is_special && which % 2 == 0 ? 0 : low);
  std::memcpy(at, &value, size);
}

std::vector<std::byte> bytes_of(DType dtype, Content content, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count * item_size(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    draw(dtype, content, random, bytes.data() + i * item_size(dtype));
  }
  return bytes;
}

struct Sums {
  Digest digest;
  ComponentSums sums;
};

Sums sums_with(const VectorTarget& target, DType dtype, std::span<const std::byte> bytes,
               std::uint64_t begin, const std::vector<std::size_t>& cuts = {}) {
  use_target(target);
  ComponentPass pass(dtype, {.digest = true, .sketch = true});
  for (const std::size_t cut : cuts) {
    const std::size_t size = std::min(bytes.size(), cut * item_size(dtype));
    pass.add(bytes.first(size), begin);
    begin += size / item_size(dtype);
    bytes = bytes.subspan(size);
  }
  pass.add(bytes, begin);
  return {pass.digest(), pass.sums()};
}

void expect_same_bits(const Sums& found, const Sums& expected) {
  EXPECT_EQ(to_text(found.digest), to_text(expected.digest));
  EXPECT_EQ(found.sums.non_finite, expected.sums.non_finite);
  // Zeros of either sign are equal, and become 0 in the statistics.
  EXPECT_EQ(found.sums.least, expected.sums.least);
  EXPECT_EQ(found.sums.most, expected.sums.most);
  const auto same = [](const auto& a, const auto& b) {
    return std::memcmp(a.data(), b.data(), sizeof a) == 0;
  };
  EXPECT_TRUE(same(found.sums.squares, expected.sums.squares));
  EXPECT_TRUE(same(found.sums.lanes, expected.sums.lanes));
}

TEST_F(VectorTargets, GiveTheBitsOfTheScalarCode) {
  for (const DType dtype : kFloating) {
    for (const Content content :
         {Content::drawn, Content::subnormal, Content::with_special, Content::special}) {
      for (const std::size_t count : {0U, 1U, 63U, 64U, 65U, 1024U, 5003U}) {
        const auto bytes = bytes_of(dtype, content, count, static_cast<unsigned>(count));
        for (const std::uint64_t begin : {0U, 1U, 7U, 1023U, 70001U}) {
          const Sums expected = sums_with(scalar(), dtype, bytes, begin);
          for (const VectorTarget* target : supported_targets()) {
            SCOPED_TRACE(testing::Message()
                         << target->name << ", " << name(dtype) << ", content " << int(content)
                         << ", " << count << " components from " << begin);
            expect_same_bits(sums_with(*target, dtype, bytes, begin), expected);
          }
        }
      }
    }
  }
}

TEST_F(VectorTargets, GiveTheSameWhereverTheBytesLie) {
  for (const DType dtype : kFloating) {
    const auto bytes = bytes_of(dtype, Content::with_special, 3000, 1);
    const Sums expected = sums_with(scalar(), dtype, bytes, 3);
    for (std::size_t shift = 0; shift < 65; ++shift) {
      std::vector<std::byte> moved(bytes.size() + shift);
      std::copy(bytes.begin(), bytes.end(), moved.begin() + static_cast<std::ptrdiff_t>(shift));
      for (const VectorTarget* target : supported_targets()) {
        SCOPED_TRACE(testing::Message() << target->name << ", " << name(dtype) << ", " << shift);
        expect_same_bits(sums_with(*target, dtype, std::span(moved).subspan(shift), 3), expected);
      }
    }
  }
}

TEST_F(VectorTargets, GiveTheSameHoweverThePassIsCut) {
  std::mt19937 random(5);
  for (const DType dtype : kFloating) {
    const auto bytes = bytes_of(dtype, Content::with_special, 9000, 2);
    const Sums expected = sums_with(scalar(), dtype, bytes, 100);
    for (int cutting = 0; cutting < 20; ++cutting) {
      std::vector<std::size_t> cuts;
      for (std::size_t left = 9000; left > 0;) {
        cuts.push_back(std::min<std::size_t>(left, random() % 3000));
        left -= cuts.back();
      }
      for (const VectorTarget* target : supported_targets()) {
        SCOPED_TRACE(testing::Message() << target->name << ", " << name(dtype) << ", " << cutting);
        expect_same_bits(sums_with(*target, dtype, bytes, 100, cuts), expected);
      }
    }
  }
}

Observation whole(const Shape& shape, DType dtype) {
  Observation tensor;
  tensor.dtype = name(dtype);
  tensor.offset = Shape(shape.size(), 0);
  tensor.global_shape = tensor.local_shape = shape;
  return tensor;
}

/// The shards of a matrix, cut at `cut` of a dimension, give its digest, extremes and counts.
TEST_F(VectorTargets, ShardsAddUpToTheWhole) {
  constexpr std::int64_t kRows = 37;
  constexpr std::int64_t kColumns = 211;
  for (const DType dtype : kFloating) {
    const auto bytes = bytes_of(dtype, Content::with_special, kRows * kColumns, 3);
    const std::size_t size = item_size(dtype);
    for (const VectorTarget* target : supported_targets()) {
      use_target(*target);
      Observation matrix = whole({kRows, kColumns}, dtype);
      const Sketch expected = measure_and_sketch(matrix, bytes);
      for (const std::int64_t cut : {1, 64, 100, 210}) {
        Digest digest;
        Sketch sketch;
        std::int64_t non_finite = 0;
        for (const bool is_second : {false, true}) {
          Observation shard = matrix;
          shard.offset = with(shard.offset, 1, is_second ? cut : 0);
          shard.local_shape = with(shard.local_shape, 1, is_second ? kColumns - cut : cut);
          std::vector<std::byte> part;
          for (std::int64_t row = 0; row < kRows; ++row) {
            const auto first = bytes.begin() +
                               (row * kColumns + shard.offset[1]) * static_cast<std::int64_t>(size);
            part.insert(part.end(), first,
                        first + shard.local_shape[1] * static_cast<std::int64_t>(size));
          }
          sketch += measure_and_sketch(shard, part);
          digest += shard.digest;
          non_finite += shard.statistics.non_finite;
        }
        EXPECT_EQ(digest, matrix.digest) << target->name << ", cut at " << cut;
        EXPECT_EQ(non_finite, matrix.statistics.non_finite);
        for (std::size_t lane = 0; lane < sketch.lanes.size(); ++lane) {
          EXPECT_NEAR(sketch.lanes[lane], expected.lanes[lane], 1e-9 * norm_of(expected));
        }
      }
    }
  }
}

TEST_F(VectorTargets, TheNormOfFloatsIsThatOfExactSquares) {
  const auto bytes = bytes_of(DType::float32, Content::drawn, 100000, 4);
  long double exact = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const long double value = component_value(DType::float32, bytes.data() + i);
    exact += value * value;
  }
  for (const VectorTarget* target : supported_targets()) {
    use_target(*target);
    Observation tensor = whole({100000}, DType::float32);
    measure(tensor, bytes);
    EXPECT_NEAR(tensor.statistics.norm, double(std::sqrt(exact)), 1e-14 * double(std::sqrt(exact)));
  }
}

TEST_F(VectorTargets, HalfOfEveryBitPatternHasItsValue) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    std::vector<std::uint16_t> all(1 << 16);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    for (std::size_t block = 0; block < all.size(); block += 64) {
      const auto bytes = std::as_bytes(std::span(all).subspan(block, 64));
      const Sums expected = sums_with(scalar(), dtype, bytes, 0);
      for (const VectorTarget* target : supported_targets()) {
        SCOPED_TRACE(testing::Message() << target->name << ", " << name(dtype) << ", " << block);
        expect_same_bits(sums_with(*target, dtype, bytes, 0), expected);
      }
    }
  }
}

constexpr DType kFloat8[] = {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz,
                             DType::float8_e5m2fnuz, DType::float8_e8m0fnu};

std::vector<std::byte> drawn_bytes(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_F(VectorTargets, GiveTheBitsOfTheScalarCodeForTypesOf8Bits) {
  for (const DType dtype : kFloat8) {
    for (const std::size_t count : {0U, 1U, 63U, 64U, 65U, 4096U, 9001U}) {
      const auto bytes = drawn_bytes(count, static_cast<unsigned>(count));
      for (const std::uint64_t begin : {0U, 1U, 64U, 4095U, 70016U}) {
        use_target(scalar());
        ComponentSums sums;
        add_components(dtype, bytes.data(), count, begin, 0, true, sums);
        const Sums expected{digest_run(bytes, begin), sums};
        for (const VectorTarget* target : supported_targets()) {
          SCOPED_TRACE(testing::Message() << target->name << ", " << name(dtype) << ", " << count
                                          << " components from " << begin);
          expect_same_bits(sums_with(*target, dtype, bytes, begin), expected);
          expect_same_bits(sums_with(*target, dtype, bytes, begin, {100, 28, 64, 1}), expected);
        }
      }
    }
  }
}

constexpr DType kWhole[] = {DType::int8,  DType::int16, DType::int32,
                            DType::int64, DType::uint8, DType::boolean};

using Wide = unsigned __int128;

/// The root of the exact sum of squares, rounded once.
double norm_of_whole(DType dtype, std::span<const std::byte> bytes) {
  Wide lows = 0, highs = 0;  // sums of the halves of squares
  for (std::size_t at = 0; at < bytes.size(); at += item_size(dtype)) {
    const auto value = static_cast<__int128>(whole_value(dtype, bytes.data() + at));
    const Wide square = static_cast<Wide>(value * value);
    lows += static_cast<std::uint64_t>(square);
    highs += square >> 64;
  }
  highs += lows >> 64;
  int exponent = 64;
  auto rest = static_cast<std::uint64_t>(lows);
  while (exponent > 0 && highs >> 127 == 0) {
    highs = highs << 1 | rest >> 63;
    rest <<= 1;
    --exponent;
  }
  if (rest != 0) highs |= 1;
  return std::sqrt(std::scalbn(static_cast<double>(highs), exponent));
}

/// Component by component, as the values of journals are defined.
Statistics defined(DType dtype, std::span<const std::byte> bytes) {
  Statistics result;
  const std::size_t size = item_size(dtype);
  if (bytes.empty()) return result;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const std::int64_t value = whole_value(dtype, bytes.data() + at);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  result.norm = norm_of_whole(dtype, bytes);
  result.minimum = least;
  result.maximum = most;
  return result;
}

/// Numbers of at most `bits` bits, with a few of any size if `has_large`.
std::vector<std::byte> whole_numbers(DType dtype, std::size_t count, int bits, bool has_large) {
  std::mt19937_64 random(count + static_cast<unsigned>(bits));
  std::vector<std::byte> bytes(count * item_size(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t drawn = random();
    auto value = static_cast<std::int64_t>(drawn) >> (64 - bits);
    if (has_large && random() % 500 == 0) value = static_cast<std::int64_t>(random());
    if (has_large && random() % 500 == 0) value = std::numeric_limits<std::int64_t>::min();
    std::memcpy(bytes.data() + i * item_size(dtype), &value, item_size(dtype));
  }
  return bytes;
}

TEST_F(VectorTargets, GiveTheStatisticsThatAreDefinedForWholeNumbers) {
  for (const DType dtype : kWhole) {
    for (const std::size_t count : {0U, 1U, 2U, 63U, 1023U, 1025U, 4097U, 20001U}) {
      for (const int bits : {1, 4, 8, 16, 21, 22, 23, 27, 33, 53, 64}) {
        for (const bool has_large : {false, true}) {
          const auto bytes = whole_numbers(dtype, count, bits, has_large);
          const Statistics expected = defined(dtype, bytes);
          std::vector<std::byte> moved(bytes.size() + 3);
          std::copy(bytes.begin(), bytes.end(), moved.begin() + 3);
          for (const VectorTarget* target : supported_targets()) {
            SCOPED_TRACE(testing::Message() << target->name << ", " << name(dtype) << ", " << count
                                            << " of " << bits << " bits, " << has_large);
            use_target(*target);
            EXPECT_EQ(statistics(dtype, bytes), expected);
            EXPECT_EQ(statistics(dtype, std::span(moved).subspan(3)), expected);
          }
        }
      }
    }
  }
}

void expect_defined_statistics(const std::vector<std::int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  for (const VectorTarget* target : supported_targets()) {
    use_target(*target);
    EXPECT_EQ(statistics(DType::int32, bytes), defined(DType::int32, bytes)) << target->name;
  }
}

/// A sum of squares just below and at 2^53.
TEST_F(VectorTargets, GiveTheDefinedNormWhereSquaresBecomeInexact) {
  for (const std::int64_t more : {-1, 0, 1, 2}) {
    std::vector<std::int32_t> values((1 << 13) - 1, 1 << 20);
    values.insert(values.end(), 1 << 11, (1 << 9) * 3 / 2);
    for (std::int64_t i = -1; i < more; ++i) values.push_back(1 << 20);
    values.push_back(1);
    expect_defined_statistics(values);
  }
}

/// 64 bits do not hold the sum of their squares.
TEST_F(VectorTargets, GiveTheDefinedNormOfSquaresThatOverflow) {
  std::vector<std::int32_t> values(16, 1 << 30);
  values.push_back(3);
  expect_defined_statistics(values);
}

TEST(SupportedTargets, EndWithTheScalarOne) {
  EXPECT_EQ(supported_targets().back()->name, "scalar");
  EXPECT_EQ(vector_target().name, supported_targets().front()->name);
#ifdef __aarch64__
  EXPECT_EQ(vector_target().name, "NEON");
#endif
}

}  // namespace
}  // namespace lockstep
