#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/record/splitmix64.h"

namespace lockstep {

/// Name of the definition, written into every journal. docs/formats.md specifies it with worked
/// examples.
inline constexpr std::string_view kDigestName = "lockstep-2";

/// Linear digest of a tensor's row-major global bytes, in two lanes. Each lane is the sum of w_j *
/// key(j) modulo 2^64 over the 32-bit little-endian words w_j, with j the word's index in the
/// global tensor. Adding digests of disjoint byte runs gives the digest of their union, so the
/// shards' digests sum to the whole tensor's.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;
  Digest& operator+=(const Digest& other);
};

/// The keys of word `j`, one per lane. Each key is an odd 32-bit number times an odd 64-bit number.
/// The first depends on the word's position in its block of `kDigestBlock` words, the second on the
/// block.
Digest word_keys(std::uint64_t j);
inline constexpr std::uint64_t kDigestBlock = 1024;

/// The first factor of a word's keys, one per lane.
struct PlaceKey {
  std::uint32_t low;
  std::uint32_t high;
};

/// Of the word at `place` of its block.
constexpr PlaceKey place_key(std::uint64_t place) {
  const std::uint64_t drawn = splitmix64(place);
  return {static_cast<std::uint32_t>(drawn) | 1U, static_cast<std::uint32_t>(drawn >> 32) | 1U};
}

/// The key of all words of a block, one per lane: the second factor of their keys.
constexpr Digest block_keys(std::uint64_t block) {
  // A range far from that of the place keys.
  const std::uint64_t state = (std::uint64_t{1} << 63) + 2 * block;
  return {splitmix64(state) | 1U, splitmix64(state + 1) | 1U};
}

/// Digest contribution of `bytes`, which start at `global_byte_offset` of the tensor. The offset
/// need not be a multiple of 4.
Digest digest_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset);

/// Whether bytes with the digest or checksum `found` are those that `stored` was made from. A build
/// for a fuzzer takes any bytes for these, so that changed ones get past the digests within a file.
template <class Sum>
constexpr bool is_intact([[maybe_unused]] const Sum& found, [[maybe_unused]] const Sum& stored) {
#ifdef LOCKSTEP_ACCEPTS_ANY_DIGEST
  return true;
#else
  return found == stored;
#endif
}

/// 32 hexadecimal digits, low lane first.
std::string to_text(const Digest& digest);

/// Parses text written by `to_text`; empty for any other text.
std::optional<Digest> digest_from_text(std::string_view text);

}  // namespace lockstep
