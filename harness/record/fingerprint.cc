#include "harness/record/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "harness/record/splitmix64.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "words are little-endian");

constexpr std::uint64_t kWordSize = 4;
constexpr std::uint64_t kBlock = std::uint64_t{1} << 32;  // words under one pair of keys

constexpr std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352d;
  x ^= x >> 15;
  x *= 0x846ca68b;
  return x ^ x >> 16;
}

constexpr std::uint32_t mix2(std::uint32_t y) {
  y ^= y >> 15;
  y *= 0x2c1b3c6d;
  y ^= y >> 12;
  y *= 0x297a2d39;
  return y ^ y >> 15;
}

// The keys of the words of one block.
class BlockKeys {
 public:
  explicit BlockKeys(std::uint64_t block)
      : low_(static_cast<std::uint32_t>(splitmix64(block))),
        high_(static_cast<std::uint32_t>(splitmix64(block) >> 32)) {}

  WordKeys at(std::uint32_t word) const {
    const std::uint32_t low = mix(word ^ low_);
    return {low, mix2(low ^ high_)};
  }

 private:
  std::uint32_t low_;
  std::uint32_t high_;
};

Fingerprint word_run(const std::byte* bytes, std::uint64_t words, std::uint64_t first) {
  const BlockKeys block(first / kBlock);
  const auto start = static_cast<std::uint32_t>(first);
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (std::uint64_t i = 0; i < words; ++i) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i * kWordSize, kWordSize);
    const WordKeys keys = block.at(start + static_cast<std::uint32_t>(i));
    low += std::uint64_t{word} * keys.low;
    high += std::uint64_t{word} * keys.high;
  }
  return {low, high};
}

// `bytes` lies in one word, from its byte `position` on.
Fingerprint part_of_word(std::span<const std::byte> bytes, std::uint64_t word,
                         std::uint64_t position) {
  std::byte whole[kWordSize] = {};
  std::copy(bytes.begin(), bytes.end(), whole + position);
  return word_run(whole, 1, word);
}

}  // namespace

Fingerprint& Fingerprint::operator+=(const Fingerprint& other) {
  low += other.low;
  high += other.high;
  return *this;
}

WordKeys word_keys(std::uint64_t j) {
  return BlockKeys(j / kBlock).at(static_cast<std::uint32_t>(j));
}

Fingerprint fingerprint_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset) {
  Fingerprint sum;
  std::uint64_t word = global_byte_offset / kWordSize;
  if (const std::uint64_t position = global_byte_offset % kWordSize; position != 0) {
    const auto head = bytes.first(std::min<std::uint64_t>(kWordSize - position, bytes.size()));
    sum += part_of_word(head, word++, position);
    bytes = bytes.subspan(head.size());
  }
  while (bytes.size() >= kWordSize) {
    const std::uint64_t words =
        std::min<std::uint64_t>(bytes.size() / kWordSize, kBlock - word % kBlock);
    sum += word_run(bytes.data(), words, word);
    word += words;
    bytes = bytes.subspan(words * kWordSize);
  }
  if (!bytes.empty()) sum += part_of_word(bytes, word, 0);
  return sum;
}

std::string to_text(const Fingerprint& fingerprint) {
  return fmt::format("{:016x}{:016x}", fingerprint.low, fingerprint.high);
}

std::optional<Fingerprint> fingerprint_from_text(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  Fingerprint result;
  std::from_chars(text.data(), text.data() + 16, result.low, 16);
  std::from_chars(text.data() + 16, text.data() + 32, result.high, 16);
  return result;
}

}  // namespace lockstep
