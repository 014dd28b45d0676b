#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Name of the definition; part of every record. docs/formats.md specifies it with worked examples.
inline constexpr std::string_view kFingerprintName = "lockstep-1";

/// Linear fingerprint of a tensor's row-major global bytes. Two lanes, each the sum over the 32-bit
/// little-endian words w_j of w_j * r(j) modulo 2^64, j the word's index in the global tensor and r
/// a keyed 32-bit function per lane. Addition is the fingerprint of the union of disjoint runs of
/// bytes: the sum over shards is the whole's.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  auto operator<=>(const Fingerprint&) const = default;
  Fingerprint& operator+=(const Fingerprint& other);
};

/// The 32-bit keys of word `j`, lane by lane. For a fixed high half of j each is injective in the
/// low half.
struct WordKeys {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};
WordKeys word_keys(std::uint64_t j);

/// Contribution of the bytes that lie at `global_byte_offset` of the tensor. The offset need not be
/// a multiple of 4.
Fingerprint fingerprint_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset);

/// 32 hexadecimal digits, low lane first.
std::string to_text(const Fingerprint& fingerprint);

/// What `to_text` wrote; nothing for any other text.
std::optional<Fingerprint> fingerprint_from_text(std::string_view text);

}  // namespace lockstep
