#include "harness/record/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "files and bits are little-endian");

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double half_value(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  const double sign = half >> 15 ? -1.0 : 1.0;
  if (exponent == 0x1f) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(0x400 + fraction, exponent - 25);
}

double bfloat_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Layout of a type of 8 bits. Only e8m0 has no sign; then each value is a power of two.
struct Float8 {
  int fraction_bits = 0;
  int bias = 0;
  enum { kInfinities, kOneNaN, kNegativeZeroIsNaN, kPowers } kind = kOneNaN;
};

constexpr Float8 kFloat8[] = {{3, 7, Float8::kOneNaN},
                              {2, 15, Float8::kInfinities},
                              {3, 8, Float8::kNegativeZeroIsNaN},
                              {2, 16, Float8::kNegativeZeroIsNaN},
                              {0, 127, Float8::kPowers}};

std::size_t number_of_float8(DType dtype) {
  return static_cast<std::size_t>(dtype) - static_cast<std::size_t>(DType::float8_e4m3fn);
}

bool is_nan(const Float8& format, int bits) {
  const int magnitude = bits & 0x7f;
  switch (format.kind) {
    case Float8::kInfinities:
      return magnitude > 0x7c;
    case Float8::kOneNaN:
      return magnitude == 0x7f;
    case Float8::kNegativeZeroIsNaN:
      return bits == 0x80;
    case Float8::kPowers:
      return bits == 0xff;
  }
  return false;
}

double float8_value(const Float8& format, int bits) {
  if (is_nan(format, bits)) return std::numeric_limits<double>::quiet_NaN();
  if (format.kind == Float8::kPowers) return std::ldexp(1, bits - format.bias);
  const int magnitude = bits & 0x7f;
  const double sign = bits >> 7 ? -1.0 : 1.0;
  if (format.kind == Float8::kInfinities && magnitude == 0x7c) {
    return sign * std::numeric_limits<double>::infinity();
  }
  const int one = 1 << format.fraction_bits;
  const int exponent = magnitude / one;
  const int fraction = magnitude % one + (exponent > 0 ? one : 0);
  return sign * std::ldexp(fraction, std::max(exponent, 1) - format.bias - format.fraction_bits);
}

using Float8Values = std::array<double, 256>;

std::array<Float8Values, std::size(kFloat8)> make_float8_values() {
  std::array<Float8Values, std::size(kFloat8)> tables{};
  for (std::size_t i = 0; i < tables.size(); ++i) {
    for (int bits = 0; bits < 256; ++bits) {
      tables[i][static_cast<std::size_t>(bits)] = float8_value(kFloat8[i], bits);
    }
  }
  return tables;
}

struct Rounding {
  double unit_roundoff = 0;
  double smallest_subnormal = 0;
};

/// Zeros for whole numbers.
Rounding rounding_of(DType dtype) {
  switch (component_type(dtype)) {
    case DType::float64:
      return {0x1p-53, 0x1p-1074};
    case DType::float32:
      return {0x1p-24, 0x1p-149};
    case DType::float16:
      return {0x1p-11, 0x1p-24};
    case DType::bfloat16:
      return {0x1p-8, 0x1p-133};
    case DType::float8_e4m3fn:
      return {0x1p-4, 0x1p-9};
    case DType::float8_e5m2:
      return {0x1p-3, 0x1p-16};
    case DType::float8_e4m3fnuz:
      return {0x1p-4, 0x1p-10};
    case DType::float8_e5m2fnuz:
      return {0x1p-3, 0x1p-17};
    case DType::float8_e8m0fnu:  // the smallest number is not subnormal
      return {0x1p-1, 0x1p-127};
    default:
      return {};
  }
}

std::uint64_t little_endian(const std::byte* bytes, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, size);
  return value;
}

// Index of a value among all values of its type, with both zeros at 0.
std::int64_t place(DType component, const std::byte* bytes) {
  const std::size_t size = item_size(component);
  const std::uint64_t value = little_endian(bytes, size);
  const unsigned unused = 64 - 8 * static_cast<unsigned>(size);
  if (component == DType::float8_e8m0fnu) return static_cast<std::int64_t>(value);
  if (unit_roundoff(component) > 0) {
    const auto magnitude = static_cast<std::int64_t>(value << unused << 1 >> unused >> 1);
    return value >> (63 - unused) ? -magnitude : magnitude;
  }
  if (component == DType::uint8) return static_cast<std::int64_t>(value);
  return static_cast<std::int64_t>(value << unused) >> unused;
}

}  // namespace

std::size_t item_size(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
    case DType::float8_e8m0fnu:
      return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
  }
  return 0;
}

std::size_t components(DType dtype) {
  return dtype == DType::complex64 || dtype == DType::complex128 ? 2 : 1;
}

DType component_type(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

double smallest_subnormal(DType dtype) { return rounding_of(dtype).smallest_subnormal; }

double unit_roundoff(DType dtype) { return rounding_of(dtype).unit_roundoff; }

bool is_float8(DType dtype) {
  return dtype >= DType::float8_e4m3fn && dtype <= DType::float8_e8m0fnu;
}

const std::array<double, 256>& float8_values(DType dtype) {
  static const auto tables = make_float8_values();
  return tables[number_of_float8(dtype)];
}

double component_value(DType component, const std::byte* bytes) {
  switch (component) {
    case DType::float32:
      return load<float>(bytes);
    case DType::float16:
      return half_value(load<std::uint16_t>(bytes));
    case DType::bfloat16:
      return bfloat_value(load<std::uint16_t>(bytes));
    case DType::int8:
      return load<std::int8_t>(bytes);
    case DType::int16:
      return load<std::int16_t>(bytes);
    case DType::int32:
      return load<std::int32_t>(bytes);
    case DType::int64:
      return static_cast<double>(load<std::int64_t>(bytes));
    case DType::uint8:
      return load<std::uint8_t>(bytes);
    case DType::boolean:
      return load<std::uint8_t>(bytes) != 0;
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
    case DType::float8_e8m0fnu:
      return float8_values(component)[load<std::uint8_t>(bytes)];
    default:
      return load<double>(bytes);
  }
}

std::int64_t whole_value(DType component, const std::byte* bytes) {
  if (component == DType::int64) return load<std::int64_t>(bytes);
  return static_cast<std::int64_t>(component_value(component, bytes));
}

std::optional<std::uint64_t> ulp_distance(DType component, const std::byte* a, const std::byte* b) {
  if (component == DType::boolean) return std::nullopt;
  if (std::isnan(component_value(component, a)) || std::isnan(component_value(component, b))) {
    return std::nullopt;
  }
  const std::int64_t left = place(component, a);
  const std::int64_t right = place(component, b);
  const auto distance = static_cast<std::uint64_t>(left) - static_cast<std::uint64_t>(right);
  return left < right ? -distance : distance;
}

std::string bits(DType dtype, const std::byte* bytes) {
  const std::size_t size = item_size(component_type(dtype));
  std::string text = "0x";
  for (std::size_t i = 0; i < components(dtype); ++i) {
    text += fmt::format("{:0{}x}", little_endian(bytes + i * size, size), 2 * size);
  }
  return text;
}

}  // namespace lockstep
