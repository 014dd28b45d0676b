#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reports/base/names.h"

namespace lockstep {

/// Element types that can be observed, named as torch names them.
enum class DType {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,
  float8_e5m2fnuz,
  float8_e8m0fnu
};

template <>
struct Names<DType> {
  static constexpr std::array<std::string_view, 17> values{
      "float32",         "float64",       "float16",       "bfloat16",    "int8",
      "int16",           "int32",         "int64",         "uint8",       "bool",
      "complex64",       "complex128",    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
      "float8_e5m2fnuz", "float8_e8m0fnu"};
};

/// Bytes of one element: 8 for complex64.
std::size_t item_size(DType dtype);

/// Numbers in one element: 2 for a complex one, else 1.
std::size_t components(DType dtype);

/// The type of one component: float32 for complex64, itself for a real one.
DType component_type(DType dtype);

/// Unit roundoff of a floating (component) type, 2^-24 for float32; 0 for integers and bool.
double unit_roundoff(DType dtype);

/// The smallest positive number of a floating (component) type, 2^-149 for float32; 0 for integers
/// and bool. Rounding errors can reach half of it, however small the value.
double smallest_subnormal(DType dtype);

/// Whether a (component) type is one of the floating types of 8 bits.
bool is_float8(DType dtype);

/// The values of the 256 bit patterns of a type of 8 bits, exact in float32 too. Requires:
/// `is_float8(dtype)`.
const std::array<double, 256>& float8_values(DType dtype);

/// The component at `bytes` as a double. Exact except for int64 beyond 2^53, which is rounded.
/// Requires: `component` is a component type.
double component_value(DType component, const std::byte* bytes);

/// The same of a type without fraction, exact. A bool is 0 or 1.
std::int64_t whole_value(DType component, const std::byte* bytes);

/// Representable values between two components of one type: 0 for equal bits, 1 for neighbours;
/// -0.0 and 0.0 count as equal. Empty for NaN and bool.
std::optional<std::uint64_t> ulp_distance(DType component, const std::byte* a, const std::byte* b);

/// The element at `bytes` in hexadecimal, most significant digit first: "0x3f800000". For a complex
/// element the digits of the real part come first.
std::string bits(DType dtype, const std::byte* bytes);

}  // namespace lockstep
