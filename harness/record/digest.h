#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

/// The key of all words of a block, one per lane: the second factor of their keys.
Digest block_keys(std::uint64_t block);

/// Digest contribution of `bytes`, which start at `global_byte_offset` of the tensor. The offset
/// need not be a multiple of 4.
Digest digest_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset);

/// 32 hexadecimal digits, low lane first.
std::string to_text(const Digest& digest);

/// Parses text written by `to_text`; empty for any other text.
std::optional<Digest> digest_from_text(std::string_view text);

}  // namespace lockstep
