#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Name of the definition; part of every journal. docs/formats.md specifies it with worked
/// examples.
inline constexpr std::string_view kDigestName = "lockstep-2";

/// Linear digest of a tensor's row-major global bytes. Two lanes, each the sum over the 32-bit
/// little-endian words w_j of w_j * key(j) modulo 2^64, j the word's index in the global tensor.
/// Addition is the digest of the union of disjoint runs of bytes: the sum over shards is the
/// whole's.
struct Digest {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const Digest&) const = default;
  Digest& operator+=(const Digest& other);
};

/// The keys of word `j`, lane by lane. Each is an odd number of 32 bits that belongs to the word's
/// place in its block of `kDigestBlock` words, times an odd one of 64 bits that belongs to the
/// block.
Digest word_keys(std::uint64_t j);
inline constexpr std::uint64_t kDigestBlock = 1024;

/// Contribution of the bytes that lie at `global_byte_offset` of the tensor. The offset need not be
/// a multiple of 4.
Digest digest_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset);

/// 32 hexadecimal digits, low lane first.
std::string to_text(const Digest& digest);

/// What `to_text` wrote; nothing for any other text.
std::optional<Digest> digest_from_text(std::string_view text);

}  // namespace lockstep
