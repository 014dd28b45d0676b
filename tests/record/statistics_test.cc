#include "harness/record/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

template <class T>
Statistics of(DType dtype, const std::vector<T>& values) {
  return statistics(dtype, std::as_bytes(std::span(values)));
}

TEST(StatisticsOf, AnEmptyTensorAreNone) {
  EXPECT_EQ(statistics(DType::float32, {}), Statistics{});
}

TEST(StatisticsOf, FloatsAreNormAndExtremes) {
  const Statistics s = of<float>(DType::float32, {3, -4, 0});
  EXPECT_EQ(s.norm, 5);
  EXPECT_EQ(to_text(s.minimum), "-4");
  EXPECT_EQ(to_text(s.maximum), "3");
  EXPECT_EQ(s.non_finite, 0);
}

TEST(StatisticsOf, FloatsShowTheExactDecimal) {
  EXPECT_EQ(to_text(of<float>(DType::float32, {0.1F}).minimum), "0.10000000149011612");
  EXPECT_EQ(to_text(of<double>(DType::float64, {0.1}).maximum), "0.1");
}

TEST(StatisticsOf, ElementsThatAreNotFiniteOnlyCount) {
  const Statistics s = of<float>(DType::float32, {NAN, 3, INFINITY, -4, -INFINITY});
  EXPECT_EQ(s.norm, 5);
  EXPECT_EQ(to_text(s.minimum), "-4");
  EXPECT_EQ(to_text(s.maximum), "3");
  EXPECT_EQ(s.non_finite, 3);
}

TEST(StatisticsOf, NothingFiniteHasNoExtremes) {
  const Statistics s = of<double>(DType::float64, {NAN, INFINITY});
  EXPECT_EQ(s.norm, 0);
  EXPECT_EQ(to_text(s.minimum), "");
  EXPECT_EQ(to_text(s.maximum), "");
  EXPECT_EQ(s.non_finite, 2);
}

TEST(StatisticsOf, NegativeZeroReadsAsZero) {
  const Statistics s = of<float>(DType::float32, {-0.0F, -0.0F});
  EXPECT_EQ(to_text(s.minimum), "0");
  EXPECT_EQ(to_text(s.maximum), "0");
}

TEST(StatisticsOf, HugeAndTinyElementsKeepTheirNorm) {
  EXPECT_EQ(of<double>(DType::float64, {3e300, 4e300}).norm, 5e300);
  EXPECT_EQ(of<float>(DType::float32, {0x1p-140F}).norm, 0x1p-140);
  EXPECT_EQ(of<double>(DType::float64, {std::numeric_limits<double>::max()}).norm,
            std::numeric_limits<double>::max());
  EXPECT_EQ(of<double>(DType::float64, {5e-324}).norm, 5e-324);
  EXPECT_EQ(of<double>(DType::float64, {3 * 0x1p-1070, 4 * 0x1p-1070}).norm, 5 * 0x1p-1070);
}

TEST(StatisticsOf, TheNormSquaresInDoublePrecision) {
  EXPECT_EQ(of<float>(DType::float32, {1e30F, 0}).norm, static_cast<double>(1e30F));
  std::vector<float> ones(std::size_t{1} << 25, 1.0F);
  EXPECT_EQ(of(DType::float32, ones).norm, std::sqrt(static_cast<double>(ones.size())));
}

TEST(StatisticsOf, IntegersHaveExactExtremesInFull) {
  const Statistics s = of<std::int64_t>(DType::int64, {INT64_MAX, INT64_MIN + 1, 0});
  EXPECT_EQ(to_text(s.minimum), "-9223372036854775807");
  EXPECT_EQ(to_text(s.maximum), "9223372036854775807");
  EXPECT_EQ(to_text(of<std::int32_t>(DType::int32, {100000, -1000000}).maximum), "100000");
  EXPECT_EQ(to_text(of<std::int32_t>(DType::int32, {100000, -1000000}).minimum), "-1000000");
  EXPECT_EQ(to_text(of<std::uint8_t>(DType::uint8, {0, 255}).maximum), "255");
  EXPECT_EQ(to_text(of<std::int8_t>(DType::int8, {-128, 127}).minimum), "-128");
  EXPECT_EQ(of<std::int16_t>(DType::int16, {3, -4}).norm, 5);
}

TEST(StatisticsOf, TheNormOfIntegersIsTheRootOfTheirExactSum) {
  EXPECT_EQ(of<std::int64_t>(DType::int64, {INT64_MIN}).norm, 0x1p63);
  EXPECT_EQ(of<std::int64_t>(DType::int64, {3LL << 40, -(4LL << 40)}).norm, 5 * 0x1p40);
  EXPECT_EQ(of<std::int32_t>(DType::int32, {INT32_MIN, 1}).norm, std::sqrt(0x1p62 + 1));
  // In float64 each 1 would be lost beside 2^54.
  std::vector<std::int32_t> large(4096, 1);
  large[0] = 1 << 27;
  EXPECT_EQ(of(DType::int32, large).norm, std::sqrt(0x1p54 + 4095));
}

TEST(StatisticsOf, BoolsCountAsZeroAndOne) {
  const Statistics s = of<std::uint8_t>(DType::boolean, {1, 0, 1, 1, 1});
  EXPECT_EQ(to_text(s.minimum), "0");
  EXPECT_EQ(to_text(s.maximum), "1");
  EXPECT_EQ(s.norm, 2);
}

TEST(StatisticsOf, ComplexElementsCountAsTwo) {
  const Statistics s = of<float>(DType::complex64, {3, -4, NAN, NAN});
  EXPECT_EQ(s.norm, 5);
  EXPECT_EQ(to_text(s.minimum), "-4");
  EXPECT_EQ(to_text(s.maximum), "3");
  EXPECT_EQ(s.non_finite, 2);
  EXPECT_EQ(to_text(of<double>(DType::complex128, {0.5, 2}).maximum), "2");
}

TEST(StatisticsOf, HalfPrecisionIsRead) {
  const Statistics half = of<std::uint16_t>(DType::float16, {0x4200, 0xc400, 0x7c00});
  EXPECT_EQ(half.norm, 5);
  EXPECT_EQ(to_text(half.minimum), "-4");
  EXPECT_EQ(half.non_finite, 1);
  const Statistics bfloat = of<std::uint16_t>(DType::bfloat16, {0x4040, 0xc080, 0x7fc0});
  EXPECT_EQ(bfloat.norm, 5);
  EXPECT_EQ(to_text(bfloat.maximum), "3");
  EXPECT_EQ(bfloat.non_finite, 1);
}

}  // namespace
}  // namespace lockstep
