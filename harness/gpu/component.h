#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "harness/record/dtype.h"

/// The first precedes functions that a GPU runs, too, the second loops that nvcc would unroll to no
/// use.
#ifdef __CUDACC__
#define LOCKSTEP_BOTH __host__ __device__
#define LOCKSTEP_KEEP_LOOP _Pragma("unroll 1")
#else
#define LOCKSTEP_BOTH
#define LOCKSTEP_KEEP_LOOP
#endif

namespace lockstep::gpu {

/// How the components of a type read: `Bits` as they lie in memory, `Value` the type of their
/// values, which has all of them: float, double or std::int64_t.
template <DType dtype>
struct Component;

template <class T, class As>
struct WholeComponent {
  using Bits = std::make_unsigned_t<T>;
  using Value = As;
  LOCKSTEP_BOTH static Value value(Bits bits) { return static_cast<T>(bits); }
};

template <>
struct Component<DType::int8> : WholeComponent<std::int8_t, std::int64_t> {};
template <>
struct Component<DType::int16> : WholeComponent<std::int16_t, std::int64_t> {};
template <>
struct Component<DType::int32> : WholeComponent<std::int32_t, std::int64_t> {};
template <>
struct Component<DType::int64> : WholeComponent<std::int64_t, std::int64_t> {};
template <>
struct Component<DType::uint8> : WholeComponent<std::uint8_t, std::int64_t> {};

template <>
struct Component<DType::boolean> {
  using Bits = std::uint8_t;
  using Value = std::int64_t;
  LOCKSTEP_BOTH static Value value(Bits bits) { return bits != 0; }
};

template <>
struct Component<DType::float64> {
  using Bits = std::uint64_t;
  using Value = double;
  LOCKSTEP_BOTH static Value value(Bits bits) { return std::bit_cast<double>(bits); }
};

template <>
struct Component<DType::float32> {
  using Bits = std::uint32_t;
  using Value = float;
  LOCKSTEP_BOTH static Value value(Bits bits) { return std::bit_cast<float>(bits); }
};

template <>
struct Component<DType::bfloat16> {
  using Bits = std::uint16_t;
  using Value = float;
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// A type with a sign, `fraction_bits`, and the exponent `bias`. Shifted to the places of a float's
/// bits its magnitude reads as the value times 2^(bias - 127), also below the normal numbers.
template <class Word, int fraction_bits, int bias>
struct SmallFloat {
  using Bits = Word;
  using Value = float;
  static constexpr std::uint32_t kSign = 1U << (8 * sizeof(Bits) - 1);

  LOCKSTEP_BOTH static Value finite_value(Bits bits) {
    constexpr auto kScale = std::bit_cast<float>(std::uint32_t{254 - bias} << 23);
    const std::uint32_t magnitude = (bits & (kSign - 1)) << (23 - fraction_bits);
    const float value = std::bit_cast<float>(magnitude) * kScale;
    return bits & kSign ? -value : value;
  }
};

/// Any value that is not finite: none of them is told from another.
inline constexpr float kNotFinite = std::numeric_limits<float>::infinity();

template <>
struct Component<DType::float16> : SmallFloat<std::uint16_t, 10, 15> {
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return (bits & 0x7c00) == 0x7c00 ? kNotFinite : finite_value(bits);
  }
};

template <>
struct Component<DType::float8_e4m3fn> : SmallFloat<std::uint8_t, 3, 7> {
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return (bits & 0x7f) == 0x7f ? kNotFinite : finite_value(bits);
  }
};

template <>
struct Component<DType::float8_e5m2> : SmallFloat<std::uint8_t, 2, 15> {
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return (bits & 0x7c) == 0x7c ? kNotFinite : finite_value(bits);
  }
};

template <>
struct Component<DType::float8_e4m3fnuz> : SmallFloat<std::uint8_t, 3, 8> {
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return bits == 0x80 ? kNotFinite : finite_value(bits);
  }
};

template <>
struct Component<DType::float8_e5m2fnuz> : SmallFloat<std::uint8_t, 2, 16> {
  LOCKSTEP_BOTH static Value value(Bits bits) {
    return bits == 0x80 ? kNotFinite : finite_value(bits);
  }
};

/// Powers of two, the smallest of which is subnormal in float32.
template <>
struct Component<DType::float8_e8m0fnu> {
  using Bits = std::uint8_t;
  using Value = float;
  LOCKSTEP_BOTH static Value value(Bits bits) {
    if (bits == 0xff) return kNotFinite;
    return std::bit_cast<float>(bits == 0 ? 0x00400000U : std::uint32_t{bits} << 23);
  }
};

/// Calls `work` with the `Component` of a component type.
template <class Work>
LOCKSTEP_BOTH void with_component(DType component, const Work& work) {
  switch (component) {
    case DType::float32:
      return work(Component<DType::float32>());
    case DType::float64:
      return work(Component<DType::float64>());
    case DType::float16:
      return work(Component<DType::float16>());
    case DType::bfloat16:
      return work(Component<DType::bfloat16>());
    case DType::int8:
      return work(Component<DType::int8>());
    case DType::int16:
      return work(Component<DType::int16>());
    case DType::int32:
      return work(Component<DType::int32>());
    case DType::int64:
      return work(Component<DType::int64>());
    case DType::uint8:
      return work(Component<DType::uint8>());
    case DType::boolean:
      return work(Component<DType::boolean>());
    case DType::float8_e4m3fn:
      return work(Component<DType::float8_e4m3fn>());
    case DType::float8_e5m2:
      return work(Component<DType::float8_e5m2>());
    case DType::float8_e4m3fnuz:
      return work(Component<DType::float8_e4m3fnuz>());
    case DType::float8_e5m2fnuz:
      return work(Component<DType::float8_e5m2fnuz>());
    case DType::float8_e8m0fnu:
      return work(Component<DType::float8_e8m0fnu>());
    case DType::complex64:  // no component types
    case DType::complex128:
      return;
  }
}

}  // namespace lockstep::gpu
