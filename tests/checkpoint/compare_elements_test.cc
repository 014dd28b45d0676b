#include "harness/checkpoint/compare_elements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "tests/checkpoint/literal_checkpoint.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// Row-major elements in a file.
class StoredElements : public testing::Test {
 protected:
  CheckpointTensor tensor(DType dtype, const std::vector<std::int64_t>& shape,
                          const std::string& bytes) {
    const fs::path path = folder_.path() / std::to_string(files_++);
    write_text(path, bytes);
    const std::vector<std::int64_t> begin(shape.size());
    return {"w", dtype, shape, {{path, {0, bytes.size()}, false, begin, shape}}};
  }

  template <class T>
  CheckpointTensor row(DType dtype, const std::vector<T>& numbers) {
    return tensor(dtype, {static_cast<std::int64_t>(numbers.size())}, bytes_of(numbers));
  }

  /// The same tensor in chunks of so many columns, the last one first.
  CheckpointTensor in_columns(const CheckpointTensor& whole, const std::string& bytes,
                              std::int64_t columns) {
    CheckpointTensor parts = whole;
    parts.chunks.clear();
    const auto item = static_cast<std::int64_t>(item_size(whole.dtype));
    for (std::int64_t first = 0; first < whole.shape[1]; first += columns) {
      const std::int64_t width = std::min(columns, whole.shape[1] - first);
      std::string part;
      for (std::int64_t line = 0; line < whole.shape[0]; ++line) {
        part += bytes.substr(static_cast<std::size_t>((line * whole.shape[1] + first) * item),
                             static_cast<std::size_t>(width * item));
      }
      CheckpointChunk chunk = tensor(whole.dtype, {whole.shape[0], width}, part).chunks[0];
      chunk.offsets = {0, first};
      parts.chunks.insert(parts.chunks.begin(), chunk);
    }
    return parts;
  }

 private:
  TemporaryFolder folder_;
  int files_ = 0;
};

std::vector<float> numbers_drawn(std::size_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::uint16_t> upper_halves(const std::vector<float>& values, std::uint32_t added) {
  std::vector<std::uint16_t> halves;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t tie = added == 0 ? 0 : bits >> 16 & 1;  // ties to even
    halves.push_back(static_cast<std::uint16_t>((bits + added + tie) >> 16));
  }
  return halves;
}

TEST_F(StoredElements, ThatAreEqualDoNotDiffer) {
  const auto values = numbers_drawn(300);
  const auto found = compare_elements(row(DType::float32, values), row(DType::float32, values));
  EXPECT_EQ(found.elements, 300);
  EXPECT_EQ(found.differing, 0);
  EXPECT_EQ(found.apart, 0);
  EXPECT_EQ(found.ulps, 0);
  EXPECT_THAT(found.place, IsEmpty());
  EXPECT_TRUE(found.is_rounded);
}

TEST_F(StoredElements, AreComparedExactlyWhereverTheyAre) {
  auto values = numbers_drawn(700 * 900);  // more than two blocks
  const std::vector<std::int64_t> shape{700, 900};
  const auto a = tensor(DType::float32, shape, bytes_of(values));
  values[555 * 900 + 7] += 2;
  values[555 * 900 + 8] = std::nextafter(values[555 * 900 + 8], 9.0F);
  values[699 * 900 + 899] -= 1;
  const auto b = tensor(DType::float32, shape, bytes_of(values));
  for (const std::int64_t columns : {900, 1, 7, 512}) {
    const auto found = compare_elements(a, in_columns(b, bytes_of(values), columns));
    EXPECT_EQ(found.differing, 3) << columns;
    EXPECT_EQ(found.rows, 700);
    EXPECT_EQ(found.differing_rows, 2);
    EXPECT_NEAR(found.apart, std::sqrt(5), 1e-6);
    EXPECT_THAT(found.place, ElementsAre(555, 7));
    EXPECT_EQ(found.value_b, values[555 * 900 + 7]);
    EXPECT_FALSE(found.is_rounded);
  }
}

TEST_F(StoredElements, ThatExchangedPlacesDiffer) {
  auto values = numbers_drawn(512);
  const auto a = row(DType::float32, values);
  std::swap(values[0], values[312]);
  EXPECT_EQ(compare_elements(a, row(DType::float32, values)).differing, 2);
}

TEST_F(StoredElements, AreCountedInUnitsOfTheLastPlace) {
  const auto ulps = [&](float one, float other) {
    return compare_elements(row<float>(DType::float32, {one}), row<float>(DType::float32, {other}))
        .ulps;
  };
  EXPECT_EQ(ulps(1, std::nextafter(1.0F, 2.0F)), 1);
  EXPECT_EQ(ulps(-3, std::nextafter(-3.0F, 0.0F)), 1);
  EXPECT_EQ(ulps(1, 2), 0x1p22);
  EXPECT_EQ(ulps(0, 0x1p-149F), 1);
  EXPECT_EQ(ulps(0.0F, -0.0F), 0);
  EXPECT_EQ(ulps(1, NAN), INFINITY);
  const auto found =
      compare_elements(row<float>(DType::float32, {0.0F}), row<float>(DType::float32, {-0.0F}));
  EXPECT_EQ(found.differing, 1);
  EXPECT_THAT(found.place, ElementsAre(0));
  const auto whole = compare_elements(row<std::int64_t>(DType::int64, {7, 100}),
                                      row<std::int64_t>(DType::int64, {7, 97}));
  EXPECT_EQ(whole.ulps, 3);
}

/// A copy in another type is one if each number is the nearest, not if it was cut off.
TEST_F(StoredElements, OfACopyAreNearestNumbers) {
  const auto values = numbers_drawn(5000);
  const auto wide = row(DType::float32, values);
  const auto rounded = row(DType::bfloat16, upper_halves(values, 0x7fff));
  const auto truncated = row(DType::bfloat16, upper_halves(values, 0));
  for (const auto& found : {compare_elements(wide, rounded), compare_elements(rounded, wide)}) {
    EXPECT_TRUE(found.is_rounded);
    EXPECT_GT(found.differing, 4000);
    EXPECT_LE(found.ulps, 0.5);
    EXPECT_GT(found.ulps, 0.49);
  }
  const auto cut = compare_elements(wide, truncated);
  EXPECT_FALSE(cut.is_rounded);
  EXPECT_LT(cut.ulps, 1);
  EXPECT_GT(cut.ulps, 0.9);
  std::vector<double> doubles(values.begin(), values.end());
  const auto exact = compare_elements(wide, row(DType::float64, doubles));
  EXPECT_EQ(exact.differing, 0);
  EXPECT_TRUE(exact.is_rounded);
  doubles[7] *= 1 + 0x1p-20;
  EXPECT_FALSE(compare_elements(wide, row(DType::float64, doubles)).is_rounded);
}

TEST_F(StoredElements, MayRoundToSubnormalNumbersAndToZero) {
  const std::vector<float> values{1.4F * 0x1p-24F, 0.6F * 0x1p-24F, 0.4F * 0x1p-24F,
                                  -0.4F * 0x1p-24F, 1.5F * 0x1p-24F};
  const auto with = [&](const std::vector<std::uint16_t>& halves) {
    return compare_elements(row(DType::float32, values), row(DType::float16, halves)).is_rounded;
  };
  EXPECT_TRUE(with({1, 1, 0, 0x8000, 2}));
  EXPECT_TRUE(with({1, 1, 0, 0x8000, 1}));  // a tie
  EXPECT_FALSE(with({1, 0, 0, 0x8000, 2}));
  EXPECT_FALSE(with({1, 1, 1, 0x8000, 2}));
  const auto too_large = compare_elements(row<float>(DType::float32, {70000}),
                                          row<std::uint16_t>(DType::float16, {0x7c00}));
  EXPECT_FALSE(too_large.is_rounded);
  EXPECT_EQ(too_large.ulps, INFINITY);
}

TEST_F(StoredElements, OfTheSmallTypesAreNearestNumbersToo) {
  for (const DType dtype :
       {DType::float8_e4m3fn, DType::float8_e5m2, DType::float8_e4m3fnuz, DType::float8_e5m2fnuz}) {
    std::mt19937 random(3);
    std::vector<float> exact(2000);
    std::vector<std::uint8_t> nearest(exact.size());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      exact[i] = std::ldexp(std::normal_distribution<float>()(random), int(random() % 8) - 10);
      const auto& all = float8_values(dtype);
      for (std::size_t bits = 0; bits < all.size(); ++bits) {
        const bool is_nearer =
            std::abs(all[bits] - exact[i]) < std::abs(all[nearest[i]] - exact[i]);
        if (is_nearer) nearest[i] = static_cast<std::uint8_t>(bits);
      }
    }
    const auto is_rounded = [&] {
      return compare_elements(row(DType::float32, exact), row(dtype, nearest)).is_rounded;
    };
    EXPECT_TRUE(is_rounded()) << name(dtype);
    for (std::size_t i = 0; i < 40; ++i) {
      if (nearest[i] % 128 < 3) continue;  // zero, or not finite
      nearest[i] = static_cast<std::uint8_t>(nearest[i] - 2);
      EXPECT_FALSE(is_rounded()) << name(dtype) << " " << exact[i];
      nearest[i] = static_cast<std::uint8_t>(nearest[i] + 2);
    }
  }
}

TEST_F(StoredElements, ThatAreComplexDifferIfAComponentDoes) {
  const auto found = compare_elements(tensor(DType::complex64, {2}, bytes_of<float>({1, 2, 3, 4})),
                                      tensor(DType::complex64, {2}, bytes_of<float>({1, 2, 3, 5})));
  EXPECT_EQ(found.differing, 1);
  EXPECT_THAT(found.place, ElementsAre(1));
  EXPECT_EQ(found.value_b, 5);
}

TEST_F(StoredElements, AreStackedIfTheirOtherDimensionsAreTheSame) {
  const auto values = numbers_drawn(60);
  const auto part = [&](std::size_t first, std::int64_t rows) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
    return tensor(DType::float32, {rows, 5}, bytes_of(std::vector<float>(begin, begin + rows * 5)));
  };
  const auto q = part(0, 2), k = part(10, 7), v = part(45, 3);
  const auto whole = tensor(DType::float32, {12, 5}, bytes_of(values));
  EXPECT_EQ(compare_elements(whole, *stacked({&q, &k, &v})).differing, 0);
  EXPECT_EQ(compare_elements(whole, *stacked({&k, &q, &v})).differing_rows, 9);
  const auto other = tensor(DType::float32, {3, 4}, bytes_of(numbers_drawn(12)));
  EXPECT_FALSE(stacked({&q, &other}));
}

}  // namespace
}  // namespace lockstep
