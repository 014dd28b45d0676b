#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "harness/gpu/block_plan.h"
#include "harness/gpu/component.h"
#include "harness/gpu/tensor_task.h"
#include "harness/record/component_sums.h"
#include "harness/record/digest.h"

namespace lockstep::gpu {

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

LOCKSTEP_BOTH inline bool is_finite(float value) {
  return __builtin_fabsf(value) <= std::numeric_limits<float>::max();
}
LOCKSTEP_BOTH inline bool is_finite(double value) {
  return __builtin_fabs(value) <= std::numeric_limits<double>::max();
}

/// The value, negated if bit `place` of `signs` is set.
LOCKSTEP_BOTH inline float with_sign(float value, std::uint32_t signs, std::uint32_t place) {
  const std::uint32_t sign = signs << (31 - place) & 1U << 31;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ sign);
}
LOCKSTEP_BOTH inline double with_sign(double value, std::uint32_t signs, std::uint32_t place) {
  const std::uint64_t sign = std::uint64_t{signs >> place & 1} << 63;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ sign);
}

/// The larger and the smaller one. Neither is NaN. Of zeros a GPU may choose another one.
template <class T>
LOCKSTEP_BOTH constexpr T larger(T a, T b) {
  return b > a ? b : a;
}
template <class T>
LOCKSTEP_BOTH constexpr T smaller(T a, T b) {
  return b < a ? b : a;
}

#ifdef __CUDA_ARCH__
LOCKSTEP_BOTH inline float larger(float a, float b) { return fmaxf(a, b); }
LOCKSTEP_BOTH inline float smaller(float a, float b) { return fminf(a, b); }
#endif

/// Two neighbours, as they lie in memory.
template <class Bits>
struct alignas(2 * sizeof(Bits)) Pair {
  Bits at[2];
};

/// Of one thread, between two calls of `each` (team.h).
struct ThreadState {
  Totals totals;
  /// Of each sketch the lane whose number is twice that of the thread, and the next one.
  double lanes[ComponentSums::kSketches][2];
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
  return {{}, Whole::max(), Whole::min()};
}

LOCKSTEP_BOTH inline void include(FloatingTotals& sum, const FloatingTotals& other) {
  sum.squares += other.squares;
  sum.least = smaller(sum.least, other.least);
  sum.most = larger(sum.most, other.most);
}

LOCKSTEP_BOTH inline void include(WholeTotals& sum, const WholeTotals& other) {
  add(sum.squares, other.squares);
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
                         const bool (&is_present)[2], const PlaceKey* keys) {
    add_words(at, pair, keys + plan.first_key);
    if constexpr (kIsWhole) {
      for (int i = 0; i < 2; ++i) add_whole(Component::value(pair.at[i]), is_present[i]);
    } else {
      Value values[2];
      for (int i = 0; i < 2; ++i) {
        values[i] = include(Component::value(pair.at[i]), is_present[i]);
        // It has no sign.
        double& squares = state_.totals.floating.squares;
        squares = add_square(squares, values[i]);
      }
      add_to_lanes(plan, 0, at, values);
    }
  }

  /// Adds such a pair to the second sketch alone.
  LOCKSTEP_BOTH void add_to_second(const BlockPlan& plan, std::uint32_t at, const Pair<Bits>& pair,
                                   const bool (&is_present)[2]) {
    if constexpr (!kIsWhole) {
      Value values[2];
      for (int i = 0; i < 2; ++i) {
        const Value value = Component::value(pair.at[i]);
        const Value counted = is_present[i] && is_finite(value) ? value : Value{0};
        values[i] = plan.is_second_negative ? -counted : counted;
      }
      add_to_lanes(plan, 1, at, values);
    }
  }

  /// The words that were added since the last call lie in the same block of the digest as this one.
  LOCKSTEP_BOTH void finish_words(const BlockPlan& plan) {
    state_.totals.low += low_ * plan.low_key;
    state_.totals.high += high_ * plan.high_key;
    low_ = high_ = 0;
  }

  /// Called once, at the end.
  LOCKSTEP_BOTH void finish() {
    state_.totals.non_finite += non_finite_;
    if constexpr (kIsWhole) {
      lockstep::gpu::include(state_.totals.whole, {whole_squares_, least_, most_});
    } else if (least_ <= most_) {  // adding 0 turns -0.0 into 0.0
      lockstep::gpu::include(state_.totals.floating, {0, least_ + 0.0, most_ + 0.0});
    }
  }

 private:
  LOCKSTEP_BOTH void add_word(std::uint32_t word, const PlaceKey& key) {
    low_ += std::uint64_t{word} * key.low;
    high_ += std::uint64_t{word} * key.high;
  }

  LOCKSTEP_BOTH void add_words(std::uint32_t at, const Pair<Bits>& pair, const PlaceKey* keys) {
    constexpr std::uint32_t kSize = sizeof(Bits);
    const PlaceKey* const own = keys + at * kSize / 4;
    if constexpr (kSize == 8) {
      const PlaceKey* key = own;
      for (const Bits bits : pair.at) {
        add_word(static_cast<std::uint32_t>(bits), *key++);
        add_word(static_cast<std::uint32_t>(bits >> 32), *key++);
      }
    } else if constexpr (kSize == 4) {
      for (int i = 0; i < 2; ++i) add_word(pair.at[i], own[i]);
    } else {
      const std::uint32_t both = pair.at[0] | static_cast<std::uint32_t>(pair.at[1]) << (8 * kSize);
      add_word(both << (at * kSize % 4 * 8), *own);
    }
  }

  LOCKSTEP_BOTH void add_whole(std::int64_t value, bool is_present) {
    if (!is_present) return;
    least_ = smaller(least_, value);
    most_ = larger(most_, value);
    if constexpr (sizeof(Bits) == 8) {
      add_square(whole_squares_, value);
    } else {
      const auto square = static_cast<std::uint64_t>(value * value);
      whole_squares_.low += square;
      // Fewer than 2^34 squares of 16 bits fit.
      if constexpr (sizeof(Bits) == 4) whole_squares_.middle += whole_squares_.low < square ? 1 : 0;
    }
  }

  /// Returns the value, or 0 if it does not count.
  LOCKSTEP_BOTH Value include(Value value, bool is_present) {
    const bool counts = is_present && is_finite(value);
    non_finite_ += is_present && !counts;
    least_ = smaller(least_, counts ? value : least_);
    most_ = larger(most_, counts ? value : most_);
    return counts ? value : Value{0};
  }

  /// Adds a pair to the lanes of this thread, which has loaded it for these.
  LOCKSTEP_BOTH void add_to_lanes(const BlockPlan& plan, int sketch, std::uint32_t at,
                                  const Value (&values)[2]) {
    const std::uint32_t signs = plan.signs[at / 32];
    const Value first = with_sign(values[0], signs, at % 32);
    const Value second = with_sign(values[1], signs, at % 32 + 1);
    const bool is_turned = plan.lanes[sketch] & 1;
    state_.lanes[sketch][0] += is_turned ? second : first;
    state_.lanes[sketch][1] += is_turned ? first : second;
  }

  ThreadState& state_;
  std::uint64_t low_ = 0;  ///< of words of one block of the digest, before its key
  std::uint64_t high_ = 0;
  WholeSquares whole_squares_{};
  Value least_ = std::numeric_limits<Value>::max();
  Value most_ = std::numeric_limits<Value>::lowest();
  std::uint32_t non_finite_ = 0;
};

}  // namespace lockstep::gpu
