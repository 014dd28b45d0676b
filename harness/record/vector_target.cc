#include "harness/record/vector_target.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "harness/record/place_keys.h"
#include "harness/record/scalar_target.h"

// Of Highway only headers are used: its library would have to be in each job that loads ours. It
// chooses targets at run time, and so do we, in `supported_targets`.
#define HWY_IS_DEBUG_BUILD 0  // assertions are in the library
// Not needed, so not required of a processor.
#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_F16C
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "harness/record/vector_target.cc"
#include <hwy/foreach_target.h>
// After it.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "harness/record/vector_loads.inl"

// One-lane targets of Highway are left out: the scalar code serves there.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

HWY_BEFORE_NAMESPACE();
namespace lockstep::HWY_NAMESPACE {
namespace {

/// In registers: the lanes of the squares.
struct Squares {
  static constexpr std::size_t kVectors = ComponentSums::kSquares / kDoubles;
  hn::Vec<Doubles> sum[kVectors];
};

HWY_INLINE void load(const ComponentSums& sums, Squares& squares) {
  for (std::size_t k = 0; k < Squares::kVectors; ++k) {
    squares.sum[k] = hn::LoadU(Doubles(), sums.squares.data() + k * kDoubles);
  }
}

HWY_INLINE void store(const Squares& squares, ComponentSums& sums) {
  for (std::size_t k = 0; k < Squares::kVectors; ++k) {
    hn::StoreU(squares.sum[k], Doubles(), sums.squares.data() + k * kDoubles);
  }
}

/// Adds the squares of a block. Those of floats are exact, so a fused addition gives the same.
template <class Load>
HWY_INLINE void add_squares(const std::byte* block, Squares& squares) {
  for (std::size_t i = 0; i < kBlock; i += ComponentSums::kSquares) {
    for (std::size_t k = 0; k < Squares::kVectors; ++k) {
      const auto value = load_doubles<Load>(block, i + k * kDoubles);
      if constexpr (sizeof(typename Load::T) == sizeof(double)) {
        squares.sum[k] = hn::Add(squares.sum[k], hn::Mul(value, value));
      } else {
        squares.sum[k] = hn::MulAdd(value, value, squares.sum[k]);
      }
    }
  }
}

template <class T>
HWY_INLINE hn::Vec<Tag<T>> infinity() {
  return hn::Inf(Tag<T>());
}

template <class T>
struct Extremes {
  hn::Vec<Tag<T>> least;
  hn::Vec<Tag<T>> most;
};

template <class Load, class T = typename Load::T>
HWY_INLINE void include_all(const std::byte* block, Extremes<T>& extremes) {
  for (std::size_t i = 0; i < kBlock; i += HWY_LANES(T)) {
    const auto value = Load::load(Tag<T>(), block, i);
    extremes.least = hn::Min(extremes.least, value);
    extremes.most = hn::Max(extremes.most, value);
  }
}

/// Whether all sums are finite: then so are the components whose squares were added.
HWY_INLINE bool is_finite(const Squares& squares) {
  auto total = squares.sum[0];
  for (std::size_t k = 1; k < Squares::kVectors; ++k) total = hn::Add(total, squares.sum[k]);
  return hn::AllTrue(Doubles(), hn::Lt(total, hn::Inf(Doubles())));
}

/// Includes the finite components of a block. `clean` receives all, with zeros for the others.
template <class Load, class T = typename Load::T>
HWY_NOINLINE void include_finite(const std::byte* block, T* clean, Extremes<T>& extremes,
                                 ComponentSums& sums) {
  const Tag<T> d;
  for (std::size_t i = 0; i < kBlock; i += HWY_LANES(T)) {
    const auto value = Load::load(d, block, i);
    const auto is_finite = hn::IsFinite(value);
    extremes.least = hn::Min(extremes.least, hn::IfThenElse(is_finite, value, infinity<T>()));
    extremes.most =
        hn::Max(extremes.most, hn::IfThenElse(is_finite, value, hn::Neg(infinity<T>())));
    sums.non_finite += static_cast<std::int64_t>(HWY_LANES(T) - hn::CountTrue(d, is_finite));
    hn::StoreU(hn::IfThenElseZero(is_finite, value), d, clean + i);
  }
}

/// Negates the lanes whose bit is set in `signs`, from bit `i` on.
template <class T>
HWY_INLINE hn::Vec<Tag<T>> flipped(hn::Vec<Tag<T>> value, const std::uint64_t& signs,
                                   std::size_t i) {
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> words;
  const auto sign = hn::SignBit(d);
#if HWY_TARGET == HWY_AVX3
  const auto is_negative =
      hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&signs) + i / 8);
  return hn::IfThenElse(is_negative, hn::Xor(value, sign), value);
#else
  using Word = hwy::MakeUnsigned<T>;
  const auto up = hn::Sub(hn::Set(words, Word{8 * sizeof(T) - 1}), hn::Iota(words, 0));
  const auto bits = hn::Shl(hn::Set(words, static_cast<Word>(signs >> i)), up);
  return hn::Xor(value, hn::And(hn::BitCast(d, bits), sign));
#endif
}

/// The components of a block in the order of the lanes that they are added to, and with the signs.
template <class Load, class T = typename Load::T>
HWY_INLINE void place_in_lanes(const std::byte* block, const SketchBlock& to, T* lanes) {
  const Tag<T> d;
  constexpr std::size_t kN = HWY_LANES(T);
  const hn::RebindToSigned<Tag<T>> numbers;
  using Number = hwy::MakeSigned<T>;
  const auto order = hn::IndicesFromVec(
      d, hn::Xor(hn::Iota(numbers, 0), hn::Set(numbers, static_cast<Number>(to.lane % kN))));
  const std::size_t shift = to.lane / kN * kN;
  for (std::size_t i = 0; i < kBlock; i += kN) {
    const auto value = flipped<T>(Load::load(d, block, i), to.signs, i);
    hn::Store(hn::TableLookupLanes(value, order), d, lanes + (i ^ shift));
  }
}

/// The lanes of the second sketch, turned for the group of blocks that is added: its components
/// then are in the order of the first sketch, but for whole vectors.
class SecondLanes {
 public:
  explicit HWY_INLINE SecondLanes(const ComponentSums& sums) {
    std::memcpy(turned_[0], sums.lanes.data() + kBlock, sizeof turned_[0]);
  }

  /// For group `number`.
  HWY_INLINE void turn_to(std::uint64_t number) { turn_to(sketch_turn(number)); }

  HWY_INLINE double* lanes() { return turned_[current_]; }

  /// In the order of the sums. Zeros that were turned have no sign there.
  HWY_INLINE void store(ComponentSums& sums) {
    turn_to(SketchTurn{});
    const Doubles d;
    for (std::size_t i = 0; i < kBlock; i += kDoubles) {
      const auto value = hn::Add(hn::Load(d, lanes() + i), hn::Zero(d));
      hn::StoreU(value, d, sums.lanes.data() + kBlock + i);
    }
  }

 private:
  HWY_INLINE void turn_to(const SketchTurn& to) {
    const SketchTurn by = now_ ^ to;
    const Doubles d;
    const hn::RebindToSigned<Doubles> numbers;
    const auto order = hn::IndicesFromVec(
        d, hn::Xor(hn::Iota(numbers, 0),
                   hn::Set(numbers, static_cast<std::int64_t>(by.lane % kDoubles))));
    const auto sign = hn::Set(d, by.is_negative ? -0.0 : 0.0);
    const std::size_t shift = by.lane / kDoubles * kDoubles;
    const double* const from = turned_[current_];
    current_ = 1 - current_;
    for (std::size_t i = 0; i < kBlock; i += kDoubles) {
      const auto value = hn::TableLookupLanes(hn::Load(d, from + i), order);
      hn::Store(hn::Xor(value, sign), d, turned_[current_] + (i ^ shift));
    }
    now_ = to;
  }

  alignas(64) double turned_[2][kBlock];
  int current_ = 0;
  SketchTurn now_;
};

/// Vectors of each sketch that are added to at the same time: as many as fit into registers and
/// hide latencies.
constexpr std::size_t kAtOnce = kDoubles == 8 ? 8 : 4;
constexpr std::size_t kSpan = kAtOnce * kDoubles;  // lanes
/// So many blocks of a group go to the same lanes of the second sketch, in another order.
constexpr std::size_t kTogether = kSpan / lane_in_group(1);

/// Adds vectors of block `i` and those after it.
template <class LoadPlaced, std::size_t i = 0>
HWY_INLINE void add_together(const std::byte* placed, hn::Vec<Doubles> (&first)[kAtOnce],
                             hn::Vec<Doubles> (&second)[kAtOnce]) {
  for (std::size_t k = 0; k < kAtOnce; ++k) {
    const auto value = load_doubles<LoadPlaced>(placed, i * kBlock + k * kDoubles);
    first[k] = hn::Add(first[k], value);
    hn::Vec<Doubles>& other = second[k ^ lane_in_group(i) / kDoubles];
    other = hn::Add(other, value);
  }
  if constexpr (i + 1 < kTogether) add_together<LoadPlaced, i + 1>(placed, first, second);
}

HWY_INLINE void load(const double* lanes, hn::Vec<Doubles> (&vectors)[kAtOnce]) {
  for (std::size_t k = 0; k < kAtOnce; ++k) {
    vectors[k] = hn::LoadU(Doubles(), lanes + k * kDoubles);
  }
}

HWY_INLINE void store(const hn::Vec<Doubles> (&vectors)[kAtOnce], double* lanes) {
  for (std::size_t k = 0; k < kAtOnce; ++k) {
    hn::StoreU(vectors[k], Doubles(), lanes + k * kDoubles);
  }
}

/// Adds a group of blocks that `place_in_lanes` wrote, one after the other. `number`: its own.
template <class LoadPlaced>
HWY_INLINE void add_lanes(const typename LoadPlaced::T* placed, std::uint64_t number,
                          SecondLanes& turned, ComponentSums& sums) {
  turned.turn_to(number);
  for (std::size_t b = 0; b < kGroup; b += kTogether) {
    for (std::size_t lane = 0; lane < kBlock; lane += kSpan) {
      double* const of_first = sums.lanes.data() + lane;
      double* const of_second = turned.lanes() + (lane ^ lane_in_group(b));
      hn::Vec<Doubles> first[kAtOnce], second[kAtOnce];
      load(of_first, first);
      load(of_second, second);
      add_together<LoadPlaced>(reinterpret_cast<const std::byte*>(placed + b * kBlock + lane),
                               first, second);
      store(first, of_first);
      store(second, of_second);
    }
  }
}

template <class T>
HWY_INLINE void include(const Extremes<T>& extremes, ComponentSums& sums) {
  const Tag<T> d;
  const double least = hn::GetLane(hn::MinOfLanes(d, extremes.least));
  const double most = hn::GetLane(hn::MaxOfLanes(d, extremes.most));
  sums.least = least < sums.least ? least : sums.least;
  sums.most = most > sums.most ? most : sums.most;
}

constexpr std::size_t kLine = 64;  // bytes of the cache
constexpr std::size_t kAhead = 2048;

/// While this line is added up, a later one comes from memory.
HWY_INLINE void fetch_ahead(const std::byte* line) { hwy::Prefetch(line + kAhead); }

using Words = Tag<std::uint64_t>;

/// Sums of the products of even and of odd words in one lane of a digest.
struct Lane {
  hn::Vec<Words> even;
  hn::Vec<Words> odd;
};

/// Each element of `words` holds two words; the second one alone is in `odd`.
HWY_INLINE void add_products(hn::Vec<Words> words, hn::Vec<Words> odd, const PlaceKeys::Lane& keys,
                             std::size_t place, Lane& lane) {
  const Words d;
  const hn::Repartition<std::uint32_t, Words> halves;
  const auto of_even = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(keys.at + place));
  const auto of_odd = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(keys.after + place));
  lane.even =
      hn::Add(lane.even, hn::MulEven(hn::BitCast(halves, words), hn::BitCast(halves, of_even)));
  lane.odd = hn::Add(lane.odd, hn::MulEven(hn::BitCast(halves, odd), hn::BitCast(halves, of_odd)));
}

/// Sums of products in both lanes.
struct Products {
  Lane low;
  Lane high;
};

/// Adds whole vectors of words, whose keys begin at `place`. Returns the number of added words.
HWY_INLINE std::size_t add_products(const std::byte* bytes, std::size_t words, std::size_t place,
                                    Products& sums) {
  constexpr std::size_t kAtOnce = 2 * HWY_LANES(std::uint64_t);
  std::size_t i = 0;
  for (; i + kAtOnce <= words; i += kAtOnce) {
    if (i % (kLine / 4) == 0) fetch_ahead(bytes + 4 * i);
    const auto pairs = hn::LoadU(Words(), reinterpret_cast<const std::uint64_t*>(bytes + 4 * i));
    const auto odd = hn::ShiftRight<32>(pairs);
    add_products(pairs, odd, kPlaceKeys.low, place + i, sums.low);
    add_products(pairs, odd, kPlaceKeys.high, place + i, sums.high);
  }
  return i;
}

HWY_INLINE Products no_products() {
  const Lane none = {hn::Zero(Words()), hn::Zero(Words())};
  return {none, none};
}

/// By words: Highway's own sum adds signed numbers, which must not overflow.
HWY_INLINE std::uint64_t total(const Lane& lane) {
  constexpr std::size_t kN = HWY_LANES(std::uint64_t);
  std::uint64_t parts[kN];
  hn::StoreU(hn::Add(lane.even, lane.odd), Words(), parts);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kN; ++i) sum += parts[i];
  return sum;
}

HWY_INLINE Digest total(const Products& sums) { return {total(sums.low), total(sums.high)}; }

Digest add_words(const std::byte* bytes, std::size_t words, std::size_t place) {
  Products sums = no_products();
  const std::size_t added = add_products(bytes, words, place, sums);
  Digest sum = total(sums);
  sum += scalar_words(bytes + 4 * added, words - added, place + added);
  return sum;
}

template <class T>
struct LoadOf;
template <>
struct LoadOf<float> : LoadFloat32 {};
template <>
struct LoadOf<double> : LoadFloat64 {};

/// Sums that stay in registers from block to block.
template <class T>
struct Running {
  Extremes<T> extremes;
  Squares squares;
  Products products;
};

/// One block. `lanes` receives its components for a sketch; null without one.
template <class Load, class T = typename Load::T>
HWY_INLINE void add_block(const std::byte* block, std::uint64_t number, T* lanes,
                          Running<T>& running, ComponentSums& sums) {
  Extremes<T> extremes = running.extremes;
  Squares squares = running.squares;
  include_all<Load>(block, extremes);
  add_squares<Load>(block, squares);
  if (HWY_LIKELY(is_finite(squares))) {
    running.extremes = extremes;
    running.squares = squares;
    if (lanes) place_in_lanes<Load>(block, sketch_block(number), lanes);
    return;
  }
  alignas(64) T clean[kBlock];
  const auto* const bytes = reinterpret_cast<const std::byte*>(clean);
  include_finite<Load>(block, clean, running.extremes, sums);
  add_squares<LoadOf<T>>(bytes, running.squares);
  if (lanes) place_in_lanes<LoadOf<T>>(bytes, sketch_block(number), lanes);
}

/// The digest has its own place in the loop over blocks: its multiplications fill the time in which
/// the sums of squares wait for each other.
template <class Load>
Digest add_blocks(const std::byte* bytes, std::size_t blocks, std::uint64_t first,
                  TensorParts wanted, ComponentSums& sums) {
  using T = typename Load::T;
  constexpr std::size_t kBytes = kBlock * Load::kSize;
  constexpr std::size_t kWords = kBytes / 4;
  alignas(64) T placed[kGroup * kBlock];
  SecondLanes second(sums);
  Running<T> running = {{infinity<T>(), hn::Neg(infinity<T>())}, {}, no_products()};
  load(sums, running.squares);
  for (std::size_t b = 0; b < blocks; ++b, ++first, bytes += kBytes) {
    if (wanted.digest) {
      add_products(bytes, kWords, first * kWords % kDigestBlock, running.products);
    }
    if (!wanted.digest) {
      for (std::size_t at = 0; at < kBytes; at += kLine) fetch_ahead(bytes + at);
    }
    const std::size_t in_group = first % kGroup;
    const bool is_partial = (b == 0 && in_group > 0) || (in_group == 0 && blocks - b < kGroup);
    if (wanted.sketch && is_partial) std::memset(placed, 0, sizeof placed);
    add_block<Load>(bytes, first, wanted.sketch ? placed + in_group * kBlock : nullptr, running,
                    sums);
    if (wanted.sketch && (in_group + 1 == kGroup || b + 1 == blocks)) {
      add_lanes<LoadOf<T>>(placed, first / kGroup, second, sums);
    }
  }
  if (wanted.sketch) second.store(sums);
  store(running.squares, sums);
  include(running.extremes, sums);
  return total(running.products);
}

// Whole numbers: plain loops, which the compiler turns into vectors of the target.

constexpr std::size_t kWholesAtOnce = 1024;
constexpr std::uint64_t kSmallWhole = std::uint64_t{1} << 26;  // 1024 of its squares fit

template <class T>
HWY_INLINE T whole_at(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof value, sizeof value);
  return value;
}

/// At most `kWholesAtOnce`.
template <class T>
HWY_INLINE void add_wholes_at_once(const std::byte* bytes, std::size_t count, bool is_boolean,
                                   ComponentSums& sums) {
  T least = std::numeric_limits<T>::max();
  T most = std::numeric_limits<T>::min();
  T values[kWholesAtOnce];
  for (std::size_t i = 0; i < count; ++i) {
    const T read = whole_at<T>(bytes, i);
    const T value = is_boolean ? static_cast<T>(read != 0) : read;
    values[i] = value;
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  sums.least_whole = std::min<std::int64_t>(sums.least_whole, least);
  sums.most_whole = std::max<std::int64_t>(sums.most_whole, most);
  const auto of_least = static_cast<std::uint64_t>(least < 0 ? -(least + 1) : least);
  const auto of_most = static_cast<std::uint64_t>(most < 0 ? -(most + 1) : most);
  if (std::max(of_least, of_most) >= kSmallWhole) {
    for (std::size_t i = 0; i < count; ++i) add_square(sums.whole_squares, values[i]);
    return;
  }
  using Square = std::conditional_t<sizeof(T) < 4, std::int32_t, std::int64_t>;
  using Sum = std::conditional_t<sizeof(T) == 1, std::uint32_t, std::uint64_t>;
  Sum sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<Sum>(static_cast<Square>(values[i]) * values[i]);
  }
  add(sums.whole_squares, sum, 0);
}

template <class T>
void add_wholes(const std::byte* bytes, std::size_t count, bool is_boolean, ComponentSums& sums) {
  for (std::size_t i = 0; i < count; i += kWholesAtOnce) {
    add_wholes_at_once<T>(bytes + i * sizeof(T), std::min(kWholesAtOnce, count - i), is_boolean,
                          sums);
  }
}

void add_whole(DType component, const std::byte* bytes, std::size_t count, ComponentSums& sums) {
  switch (component) {
    case DType::int8:
      return add_wholes<std::int8_t>(bytes, count, false, sums);
    case DType::int16:
      return add_wholes<std::int16_t>(bytes, count, false, sums);
    case DType::int32:
      return add_wholes<std::int32_t>(bytes, count, false, sums);
    case DType::int64:
      return add_wholes<std::int64_t>(bytes, count, false, sums);
    default:
      return add_wholes<std::uint8_t>(bytes, count, component == DType::boolean, sums);
  }
}

}  // namespace

constexpr VectorTarget target(std::string_view name, bool (*is_supported)()) {
  return {name,
          is_supported,
          add_words,
          add_blocks<LoadFloat32>,
          add_blocks<LoadBfloat16>,
          add_blocks<LoadFloat16>,
          add_blocks<LoadFloat64>,
          add_whole};
}

}  // namespace lockstep::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // not a one-lane target

#if HWY_ONCE

namespace lockstep {
namespace {

#if HWY_ARCH_X86
bool has_sse4() { return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2"); }

bool has_avx2() {
  return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}
#endif

/// The fastest first.
constexpr VectorTarget kTargets[] = {
#if HWY_TARGETS & HWY_AVX3
    N_AVX3::target("AVX-512", has_avx512),
#endif
#if HWY_TARGETS & HWY_AVX2
    N_AVX2::target("AVX2", has_avx2),
#endif
#if HWY_TARGETS & HWY_SSE4
    N_SSE4::target("SSE4", has_sse4),
#endif
#if HWY_TARGETS & HWY_NEON
    N_NEON::target("NEON", [] { return true; }),
#endif
    {"scalar", [] { return true; }, scalar_words, scalar_blocks<DType::float32>,
     scalar_blocks<DType::bfloat16>, scalar_blocks<DType::float16>, scalar_blocks<DType::float64>,
     add_whole_numbers},
};

std::vector<const VectorTarget*> find_targets() {
  std::vector<const VectorTarget*> found;
  for (const VectorTarget& target : kTargets) {
    if (target.is_supported()) found.push_back(&target);
  }
  return found;
}

std::atomic<const VectorTarget*>& target_in_use() {
  static std::atomic<const VectorTarget*> target = supported_targets().front();
  return target;
}

}  // namespace

std::span<const VectorTarget* const> supported_targets() {
  static const std::vector<const VectorTarget*> targets = find_targets();
  return targets;
}

const VectorTarget& vector_target() { return *target_in_use().load(std::memory_order_relaxed); }

void use_target(const VectorTarget& target) { target_in_use() = &target; }

}  // namespace lockstep

#endif  // HWY_ONCE
