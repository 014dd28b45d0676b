// Included once per instruction set by vector_target.cc: ways to load components into vectors.

#if defined(LOCKSTEP_VECTOR_LOADS) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_VECTOR_LOADS
#undef LOCKSTEP_VECTOR_LOADS
#else
#define LOCKSTEP_VECTOR_LOADS
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "harness/record/component_sums.h"

// One-lane targets of Highway are left out: the scalar code serves there.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

HWY_BEFORE_NAMESPACE();
namespace lockstep::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
using Doubles = Tag<double>;
constexpr std::size_t kDoubles = HWY_LANES(double);

constexpr std::size_t kBlock = ComponentSums::kLanes;  // components

// Ways to load components. `load` has `N` lanes from component `i` on.

struct LoadFloat32 {
  using T = float;
  static constexpr std::size_t kSize = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* bytes, std::size_t i) {
    return hn::LoadU(d, reinterpret_cast<const float*>(bytes) + i);
  }
};

template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load_halves(D d, const std::byte* bytes,
                                                        std::size_t i) {
  const hn::Rebind<std::uint16_t, D> halves;
  const hn::RebindToUnsigned<D> words;
  return hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(bytes) + i));
}

struct LoadBfloat16 {
  using T = float;
  static constexpr std::size_t kSize = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* bytes, std::size_t i) {
    return hn::BitCast(d, hn::ShiftLeft<16>(load_halves(d, bytes, i)));
  }
};

struct LoadFloat16 {
  using T = float;
  static constexpr std::size_t kSize = 2;
  /// The bits of a half, read as a float of another bias, are its value times 2^-112: also for
  /// subnormal numbers. Infinities and NaNs get the exponent of theirs.
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* bytes, std::size_t i) {
    const hn::RebindToUnsigned<D> words;
    const auto halves = load_halves(d, bytes, i);
    const auto magnitude = hn::And(halves, hn::Set(words, 0x7fff));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(halves, magnitude));
    const auto bits = hn::ShiftLeft<13>(magnitude);
    const auto scaled = hn::Mul(hn::BitCast(d, bits), hn::Set(d, 0x1p112F));
    const hn::RebindToSigned<D> numbers;
    const auto is_finite =
        hn::RebindMask(d, hn::Lt(hn::BitCast(numbers, magnitude), hn::Set(numbers, 0x7c00)));
    const auto special = hn::BitCast(d, hn::Or(bits, hn::Set(words, 0x7f800000)));
    return hn::Or(hn::IfThenElse(is_finite, scaled, special), hn::BitCast(d, sign));
  }
};

struct LoadFloat64 {
  using T = double;
  static constexpr std::size_t kSize = 8;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* bytes, std::size_t i) {
    return hn::LoadU(d, reinterpret_cast<const double*>(bytes) + i);
  }
};

template <class Load>
HWY_INLINE hn::Vec<Doubles> load_doubles(const std::byte* bytes, std::size_t i) {
  const Doubles d;
  if constexpr (sizeof(typename Load::T) == sizeof(double)) {
    return Load::load(d, bytes, i);
  } else {
    return hn::PromoteTo(d, Load::load(hn::Rebind<float, Doubles>(), bytes, i));
  }
}

}  // namespace
}  // namespace lockstep::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // not a one-lane target
#endif  // LOCKSTEP_VECTOR_LOADS
