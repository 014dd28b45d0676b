#include "harness/record/dtype.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
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
    default:
      return load<double>(bytes);
  }
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
