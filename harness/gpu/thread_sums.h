#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "harness/gpu/block_plan.h"
#include "harness/gpu/component.h"
#include "harness/gpu/tensor_task.h"
#include "harness/record/digest.h"

namespace lockstep::gpu {

inline constexpr std::uint64_t kInexact = std::uint64_t{1} << 53;  // of sums of whole squares

LOCKSTEP_BOTH constexpr std::uint64_t add_whole_squares(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;  // of numbers up to `kInexact`
  return sum < kInexact ? sum : kInexact;
}

LOCKSTEP_BOTH constexpr std::uint64_t square_of(std::int64_t value) {
  constexpr std::int64_t kRoot = 94906265;  // of 2^53, rounded down
  if (value < -kRoot || value > kRoot) return kInexact;
  return static_cast<std::uint64_t>(value * value);
}

/// The square of a float is exact in float64, so a fused addition gives the same.
LOCKSTEP_BOTH inline double add_square(double sum, float value) {
  const double exact = value;
#ifdef __CUDA_ARCH__
  return __fma_rn(exact, exact, sum);
#else
  return sum + exact * exact;
#endif
}

LOCKSTEP_BOTH inline double add_square(double sum, double value) { return sum + value * value; }

template <class T>
LOCKSTEP_BOTH constexpr bool is_finite(T value) {
  return value <= std::numeric_limits<T>::max() && value >= std::numeric_limits<T>::lowest();
}

/// The larger and the smaller one. Neither is NaN.
template <class T>
LOCKSTEP_BOTH constexpr T larger(T a, T b) {
  return b > a ? b : a;
}
template <class T>
LOCKSTEP_BOTH constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}

/// Two neighbours, as they lie in memory.
template <class Bits>
struct alignas(2 * sizeof(Bits)) Pair {
  Bits at[2];
};

/// Of one thread, between two calls of `each` (team.h).
struct ThreadState {
  Totals totals;
  double
      lanes[2];  ///< those of the sketch whose numbers are twice that of the thread, and the next
};

/// Nothing has been added yet.
template <class Totals>
LOCKSTEP_BOTH Totals empty();

template <>
LOCKSTEP_BOTH inline FloatingTotals empty() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {0, kInfinity, -kInfinity};
}

template <>
LOCKSTEP_BOTH inline WholeTotals empty() {
  using Whole = std::numeric_limits<std::int64_t>;
  return {0, Whole::max(), Whole::min()};
}

LOCKSTEP_BOTH inline void include(FloatingTotals& sum, const FloatingTotals& other) {
  sum.squares += other.squares;
  sum.least = smaller(sum.least, other.least);
  sum.most = larger(sum.most, other.most);
}

LOCKSTEP_BOTH inline void include(WholeTotals& sum, const WholeTotals& other) {
  sum.squares = add_whole_squares(sum.squares, other.squares);
  sum.least = smaller(sum.least, other.least);
  sum.most = larger(sum.most, other.most);
}

LOCKSTEP_BOTH inline Totals empty_totals(bool is_whole) {
  Totals totals = {};
  if (is_whole) {
    totals.whole = empty<WholeTotals>();
  } else {
    totals.floating = empty<FloatingTotals>();
  }
  return totals;
}

LOCKSTEP_BOTH inline void include(Totals& sum, const Totals& other, bool is_whole) {
  sum.low += other.low;
  sum.high += other.high;
  sum.non_finite += other.non_finite;
  if (is_whole) {
    include(sum.whole, other.whole);
  } else {
    include(sum.floating, other.floating);
  }
}

/// Adds to the sums of one thread a pair in each of the blocks of its warp.
template <class Component>
class PairSums {
 public:
  using Bits = typename Component::Bits;
  using Value = typename Component::Value;
  static constexpr bool kIsWhole = std::is_same_v<Value, std::int64_t>;

  LOCKSTEP_BOTH explicit PairSums(ThreadState& state) : state_(state) {}

  /// Adds a pair of a block, whose first component is component `at` of it. `is_present`: the
  /// components that belong to the part; the bits of the others are zeros.
  LOCKSTEP_BOTH void add(const BlockPlan& plan, std::uint32_t at, const Pair<Bits>& pair,
                         const bool (&is_present)[2], const PlaceKey* keys, bool is_sketched) {
    add_to_digest(plan, at, pair, keys);
    if constexpr (kIsWhole) {
      for (int i = 0; i < 2; ++i) add_whole(Component::value(pair.at[i]), is_present[i]);
    } else {
      double clean[2];
      for (int i = 0; i < 2; ++i) {
        clean[i] = add_floating(Component::value(pair.at[i]), is_present[i]);
      }
      if (!is_sketched) return;
      const std::uint32_t signs = static_cast<std::uint32_t>(plan.signs >> at);
      const double first = with_sign(clean[0], signs & 1);
      const double second = with_sign(clean[1], signs >> 1 & 1);
      const bool is_turned = plan.lane & 1;
      state_.lanes[0] += is_turned ? second : first;
      state_.lanes[1] += is_turned ? first : second;
    }
  }

  /// Called once, after the last pair.
  LOCKSTEP_BOTH void finish() {
    begin_digest_block(kNone);
    if constexpr (kIsWhole) {
      include(state_.totals.whole, {0, least_, most_});
    } else if (least_ <= most_) {
      include(state_.totals.floating, {0, least_, most_});
    }
  }

 private:
  LOCKSTEP_BOTH static double with_sign(double value, std::uint32_t is_negative) {
    const std::uint64_t sign = std::uint64_t{is_negative} << 63;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ sign);
  }

  LOCKSTEP_BOTH void add_word(std::uint32_t word, const PlaceKey& key) {
    inner_low_ += std::uint64_t{word} * key.low;
    inner_high_ += std::uint64_t{word} * key.high;
  }

  LOCKSTEP_BOTH void add_to_digest(const BlockPlan& plan, std::uint32_t at, const Pair<Bits>& pair,
                                   const PlaceKey* keys) {
    constexpr std::uint32_t kSize = sizeof(Bits);
    static_assert(kBlock * sizeof(std::uint32_t) * kDigestBlock % (kBlock * kSize) == 0,
                  "a block lies in one block of the digest");
    constexpr std::uint32_t kBlockWords = kBlock * kSize / 4;
    begin_digest_block(plan.number * kBlockWords / kDigestBlock);
    const std::uint32_t first = static_cast<std::uint32_t>(plan.number * kBlockWords) %
                                static_cast<std::uint32_t>(kDigestBlock);
    const PlaceKey* const own = keys + first + at * kSize / 4;
    if constexpr (kSize == 8) {
      for (int i = 0; i < 2; ++i) {
        add_word(static_cast<std::uint32_t>(pair.at[i]), own[2 * i]);
        add_word(static_cast<std::uint32_t>(pair.at[i] >> 32), own[2 * i + 1]);
      }
    } else if constexpr (kSize == 4) {
      for (int i = 0; i < 2; ++i) add_word(pair.at[i], own[i]);
    } else {
      const std::uint32_t both = pair.at[0] | static_cast<std::uint32_t>(pair.at[1]) << (8 * kSize);
      add_word(both << (at * kSize % 4 * 8), *own);
    }
  }

  LOCKSTEP_BOTH void begin_digest_block(std::uint64_t number) {
    if (number == digest_block_) return;
    const Digest keys = block_keys(digest_block_);
    state_.totals.low += inner_low_ * keys.low;
    state_.totals.high += inner_high_ * keys.high;
    inner_low_ = inner_high_ = 0;
    digest_block_ = number;
  }

  LOCKSTEP_BOTH void add_whole(std::int64_t value, bool is_present) {
    if (!is_present) return;
    least_ = smaller(least_, value);
    most_ = larger(most_, value);
    std::uint64_t& squares = state_.totals.whole.squares;
    squares = add_whole_squares(squares, square_of(value));
  }

  /// Returns the value, or 0 if it does not count.
  LOCKSTEP_BOTH Value add_floating(Value value, bool is_present) {
    const bool counts = is_present && is_finite(value);
    state_.totals.non_finite += is_present && !counts;
    least_ = counts ? smaller(least_, value) : least_;
    most_ = counts ? larger(most_, value) : most_;
    const Value clean = counts ? value : Value{0};
    double& squares = state_.totals.floating.squares;
    squares = add_square(squares, clean);
    return clean;
  }

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  ThreadState& state_;
  std::uint64_t digest_block_ = kNone;
  std::uint64_t inner_low_ = 0;  ///< of the words of this block, before its key
  std::uint64_t inner_high_ = 0;
  Value least_ = std::numeric_limits<Value>::max();
  Value most_ = std::numeric_limits<Value>::lowest();
};

}  // namespace lockstep::gpu
