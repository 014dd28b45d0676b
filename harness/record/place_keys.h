#pragma once

#include <array>
#include <cstdint>

#include "harness/record/digest.h"

namespace lockstep {

/// Keys of the words of a block, by position, for both lanes of a digest. Tables of 16 KiB fit into
/// the L1 cache.
struct PlaceKeys {
  struct Lane {
    alignas(64) std::uint32_t at[kDigestBlock] = {};
    /// The key of the next position; of the last one none. For vector code, which multiplies words
    /// at even and at odd positions apart.
    alignas(64) std::uint32_t after[kDigestBlock] = {};
  };

  Lane low;
  Lane high;
};

constexpr PlaceKeys make_place_keys() {
  PlaceKeys keys;
  for (std::uint64_t i = 0; i < kDigestBlock; ++i) {
    const PlaceKey key = place_key(i);
    keys.low.at[i] = key.low;
    keys.high.at[i] = key.high;
    if (i == 0) continue;
    keys.low.after[i - 1] = keys.low.at[i];
    keys.high.after[i - 1] = keys.high.at[i];
  }
  return keys;
}

inline constexpr PlaceKeys kPlaceKeys = make_place_keys();

}  // namespace lockstep
