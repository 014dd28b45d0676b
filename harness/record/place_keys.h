#pragma once

#include <array>
#include <cstdint>

#include "harness/record/digest.h"
#include "harness/record/splitmix64.h"

namespace lockstep {

/// Keys of the words of a block, by position, for both lanes of a digest. Two tables of 4 KiB fit
/// into the L1 cache.
struct PlaceKeys {
  /// Vector code reads the keys from an odd position on, and so one beyond the last.
  using Table = std::array<std::uint32_t, kDigestBlock + 1>;

  alignas(64) Table low{};
  alignas(64) Table high{};
};

constexpr PlaceKeys make_place_keys() {
  PlaceKeys keys;
  for (std::uint64_t i = 0; i < kDigestBlock; ++i) {
    const std::uint64_t drawn = splitmix64(i);
    keys.low[i] = static_cast<std::uint32_t>(drawn) | 1U;
    keys.high[i] = static_cast<std::uint32_t>(drawn >> 32) | 1U;
  }
  return keys;
}

inline constexpr PlaceKeys kPlaceKeys = make_place_keys();

}  // namespace lockstep
