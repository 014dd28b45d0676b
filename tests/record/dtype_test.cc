#include "harness/record/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

template <class T>
std::vector<std::byte> stored_bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
double value(DType dtype, T stored) {
  return component_value(dtype, stored_bytes_of<T>({stored}).data());
}

template <class T>
std::optional<std::uint64_t> ulps(DType dtype, T a, T b) {
  const auto left =
      ulp_distance(dtype, stored_bytes_of<T>({a}).data(), stored_bytes_of<T>({b}).data());
  EXPECT_EQ(left,
            ulp_distance(dtype, stored_bytes_of<T>({b}).data(), stored_bytes_of<T>({a}).data()));
  return left;
}

constexpr auto kAll = Names<DType>::values;

TEST(DTypes, HaveTheirSizes) {
  const std::vector<std::size_t> sizes{4, 8, 2, 2, 1, 2, 4, 8, 1, 1, 8, 16, 1, 1, 1, 1, 1};
  ASSERT_EQ(sizes.size(), kAll.size());
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(item_size(dtype), sizes[i]) << kAll[i];
    EXPECT_EQ(item_size(component_type(dtype)) * components(dtype), sizes[i]) << kAll[i];
    EXPECT_EQ(parse<DType>(kAll[i]), dtype);
  }
}

TEST(DTypes, AreMadeOfComponents) {
  EXPECT_EQ(components(DType::complex64), 2u);
  EXPECT_EQ(components(DType::complex128), 2u);
  EXPECT_EQ(components(DType::float32), 1u);
  EXPECT_EQ(component_type(DType::complex64), DType::float32);
  EXPECT_EQ(component_type(DType::complex128), DType::float64);
  EXPECT_EQ(component_type(DType::boolean), DType::boolean);
}

TEST(UnitRoundoff, IsHalfTheSpacingAboveOne) {
  EXPECT_EQ(unit_roundoff(DType::float64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::float32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(DType::complex64), unit_roundoff(DType::float32));
  EXPECT_EQ(unit_roundoff(DType::complex128), unit_roundoff(DType::float64));
  // The neighbours of 1 are 0x3c01 and 0x3f81.
  EXPECT_EQ(unit_roundoff(DType::float16), (value<std::uint16_t>(DType::float16, 0x3c01) - 1) / 2);
  EXPECT_EQ(unit_roundoff(DType::bfloat16),
            (value<std::uint16_t>(DType::bfloat16, 0x3f81) - 1) / 2);
  // One and its neighbour.
  const auto spacing = [](DType dtype, int one) {
    return value<std::uint8_t>(dtype, static_cast<std::uint8_t>(one + 1)) - 1;
  };
  EXPECT_EQ(unit_roundoff(DType::float8_e4m3fn), spacing(DType::float8_e4m3fn, 0x38) / 2);
  EXPECT_EQ(unit_roundoff(DType::float8_e5m2), spacing(DType::float8_e5m2, 0x3c) / 2);
  EXPECT_EQ(unit_roundoff(DType::float8_e4m3fnuz), spacing(DType::float8_e4m3fnuz, 0x40) / 2);
  EXPECT_EQ(unit_roundoff(DType::float8_e5m2fnuz), spacing(DType::float8_e5m2fnuz, 0x40) / 2);
  EXPECT_EQ(unit_roundoff(DType::float8_e8m0fnu), spacing(DType::float8_e8m0fnu, 0x7f) / 2);
  for (const DType whole :
       {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::boolean}) {
    EXPECT_EQ(unit_roundoff(whole), 0);
  }
}

TEST(ComponentValue, OfTypesOf8BitsIsThatOfTheirSpecification) {
  const auto is = [](DType dtype, std::uint8_t bits) { return value(dtype, bits); };
  EXPECT_EQ(is(DType::float8_e4m3fn, 0x7e), 448);
  EXPECT_EQ(is(DType::float8_e4m3fn, 0x81), -0x1p-9);
  EXPECT_TRUE(std::isnan(is(DType::float8_e4m3fn, 0x7f)));
  EXPECT_TRUE(std::isnan(is(DType::float8_e4m3fn, 0xff)));
  EXPECT_EQ(is(DType::float8_e5m2, 0x7b), 57344);
  EXPECT_EQ(is(DType::float8_e5m2, 0xfc), -INFINITY);
  EXPECT_TRUE(std::isnan(is(DType::float8_e5m2, 0x7d)));
  EXPECT_EQ(is(DType::float8_e4m3fnuz, 0x7f), 240);
  EXPECT_TRUE(std::isnan(is(DType::float8_e4m3fnuz, 0x80)));
  EXPECT_EQ(is(DType::float8_e5m2fnuz, 0xff), -57344);
  EXPECT_TRUE(std::isnan(is(DType::float8_e5m2fnuz, 0x80)));
  EXPECT_EQ(is(DType::float8_e8m0fnu, 0), 0x1p-127);
  EXPECT_EQ(is(DType::float8_e8m0fnu, 0xfe), 0x1p127);
  EXPECT_TRUE(std::isnan(is(DType::float8_e8m0fnu, 0xff)));
}

TEST(UlpDistance, OfTypesOf8BitsCountsTheirValues) {
  EXPECT_EQ(ulps<std::uint8_t>(DType::float8_e4m3fn, 0x00, 0x80), 0u);
  EXPECT_EQ(ulps<std::uint8_t>(DType::float8_e4m3fn, 0x01, 0x81), 2u);
  EXPECT_EQ(ulps<std::uint8_t>(DType::float8_e4m3fn, 0x7e, 0x7f), std::nullopt);
  EXPECT_EQ(ulps<std::uint8_t>(DType::float8_e8m0fnu, 0x7f, 0x81), 2u);
}

TEST(ComponentValue, IsExact) {
  EXPECT_EQ(value(DType::float32, 0.1F), static_cast<double>(0.1F));
  EXPECT_EQ(value(DType::float64, 0.1), 0.1);
  EXPECT_EQ(value<std::int8_t>(DType::int8, -128), -128);
  EXPECT_EQ(value<std::int16_t>(DType::int16, -32768), -32768);
  EXPECT_EQ(value<std::int32_t>(DType::int32, INT32_MIN), -2147483648.0);
  EXPECT_EQ(value<std::int64_t>(DType::int64, -(std::int64_t{1} << 53)), -0x1p53);
  EXPECT_EQ(value<std::uint8_t>(DType::uint8, 255), 255);
  EXPECT_EQ(value<std::uint8_t>(DType::boolean, 0), 0);
  EXPECT_EQ(value<std::uint8_t>(DType::boolean, 1), 1);
  EXPECT_EQ(value<std::uint8_t>(DType::boolean, 0x80), 1);
}

TEST(ComponentValue, ReadsHalfPrecision) {
  const auto half = [](std::uint16_t bits) { return value(DType::float16, bits); };
  EXPECT_EQ(half(0x3c00), 1);
  EXPECT_EQ(half(0xc000), -2);
  EXPECT_EQ(half(0x7bff), 65504);
  EXPECT_EQ(half(0x0400), 0x1p-14);
  EXPECT_EQ(half(0x03ff), 1023 * 0x1p-24);
  EXPECT_EQ(half(0x8001), -0x1p-24);
  EXPECT_EQ(half(0x7c00), INFINITY);
  EXPECT_EQ(half(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(half(0x7c01)));
  EXPECT_TRUE(std::signbit(half(0x8000)));
}

TEST(ComponentValue, ReadsBfloat) {
  const auto bfloat = [](std::uint16_t bits) { return value(DType::bfloat16, bits); };
  EXPECT_EQ(bfloat(0x3f80), 1);
  EXPECT_EQ(bfloat(0xc040), -3);
  EXPECT_EQ(bfloat(0x0001), 0x1p-133);
  EXPECT_EQ(bfloat(0xff80), -INFINITY);
  EXPECT_TRUE(std::isnan(bfloat(0x7fc0)));
}

TEST(ComponentValue, ReadsAtAnyAddress) {
  std::vector<std::byte> bytes(1);
  for (const std::byte b : stored_bytes_of<double>({2.5})) bytes.push_back(b);
  EXPECT_EQ(component_value(DType::float64, bytes.data() + 1), 2.5);
}

TEST(UlpDistance, CountsRepresentableValues) {
  EXPECT_EQ(ulps(DType::float32, 1.0F, 1.0F), 0u);
  EXPECT_EQ(ulps(DType::float32, 1.0F, std::nextafter(1.0F, 2.0F)), 1u);
  EXPECT_EQ(ulps(DType::float32, 1.0F, 2.0F), std::uint64_t{1} << 23);
  EXPECT_EQ(ulps(DType::float64, 1.0, 2.0), std::uint64_t{1} << 52);
  EXPECT_EQ(ulps<std::uint16_t>(DType::float16, 0x3c00, 0x4000), 1024u);
  EXPECT_EQ(ulps<std::uint16_t>(DType::bfloat16, 0x3f80, 0x4000), 128u);
  EXPECT_EQ(ulps(DType::float32, std::numeric_limits<float>::max(), INFINITY), 1u);
}

TEST(UlpDistance, CrossesZero) {
  EXPECT_EQ(ulps(DType::float32, 0.0F, -0.0F), 0u);
  EXPECT_EQ(ulps(DType::float64, 5e-324, -5e-324), 2u);
  EXPECT_EQ(ulps(DType::float64, 5e-324, -0.0), 1u);
  EXPECT_EQ(ulps<std::uint16_t>(DType::float16, 0x0001, 0x8001), 2u);
  EXPECT_EQ(ulps<std::uint16_t>(DType::bfloat16, 0x8003, 0x0002), 5u);
}

TEST(UlpDistance, HoldsTheWidestSpan) {
  const std::uint64_t span = 2 * std::bit_cast<std::uint64_t>(double{INFINITY});
  EXPECT_EQ(ulps<double>(DType::float64, -INFINITY, INFINITY), span);
  EXPECT_EQ(ulps(DType::int64, INT64_MIN, INT64_MAX), UINT64_MAX);
}

TEST(UlpDistance, IsTheDifferenceOfIntegers) {
  EXPECT_EQ(ulps<std::int8_t>(DType::int8, -128, 127), 255u);
  EXPECT_EQ(ulps<std::uint8_t>(DType::uint8, 0, 255), 255u);
  EXPECT_EQ(ulps<std::int16_t>(DType::int16, -1, 1), 2u);
  EXPECT_EQ(ulps<std::int32_t>(DType::int32, INT32_MIN, INT32_MAX), UINT32_MAX);
}

TEST(UlpDistance, HasNoMeaningForNanAndBool) {
  EXPECT_EQ(ulps(DType::float32, NAN, 1.0F), std::nullopt);
  EXPECT_EQ(ulps<double>(DType::float64, NAN, NAN), std::nullopt);
  EXPECT_EQ(ulps<std::uint16_t>(DType::float16, 0x7c01, 0x3c00), std::nullopt);
  EXPECT_EQ(ulps<std::uint8_t>(DType::boolean, 0, 1), std::nullopt);
}

TEST(Bits, ShowTheMostSignificantDigitFirst) {
  EXPECT_EQ(bits(DType::float32, stored_bytes_of<float>({1.0F}).data()), "0x3f800000");
  EXPECT_EQ(bits(DType::float64, stored_bytes_of<double>({-2.0}).data()), "0xc000000000000000");
  EXPECT_EQ(bits(DType::bfloat16, stored_bytes_of<std::uint16_t>({0x3f81}).data()), "0x3f81");
  EXPECT_EQ(bits(DType::int8, stored_bytes_of<std::int8_t>({-1}).data()), "0xff");
  EXPECT_EQ(bits(DType::boolean, stored_bytes_of<std::uint8_t>({1}).data()), "0x01");
}

TEST(Bits, ShowTheRealPartFirst) {
  EXPECT_EQ(bits(DType::complex64, stored_bytes_of<float>({1.0F, -0.0F}).data()),
            "0x3f80000080000000");
  EXPECT_EQ(bits(DType::complex128, stored_bytes_of<double>({1.0, 2.0}).data()),
            "0x3ff00000000000004000000000000000");
}

}  // namespace
}  // namespace lockstep
