#include "harness/record/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "harness/record/place_keys.h"
#include "harness/record/vector_target.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "words are little-endian");

constexpr std::uint64_t kWordSize = 4;
Digest word_run(const std::byte* bytes, std::uint64_t words, std::uint64_t first) {
  Digest sum;
  while (words > 0) {
    const std::uint64_t place = first % kDigestBlock;
    const std::uint64_t here = std::min(words, kDigestBlock - place);
    const Digest inner = vector_target().add_words(bytes, here, place);
    const Digest keys = block_keys(first / kDigestBlock);
    sum += {inner.low * keys.low, inner.high * keys.high};
    bytes += here * kWordSize;
    first += here;
    words -= here;
  }
  return sum;
}

// `bytes` lie in one word, starting at its byte `position`.
Digest part_of_word(std::span<const std::byte> bytes, std::uint64_t word, std::uint64_t position) {
  std::byte whole[kWordSize] = {};
  std::copy(bytes.begin(), bytes.end(), whole + position);
  return word_run(whole, 1, word);
}

}  // namespace

Digest& Digest::operator+=(const Digest& other) {
  low += other.low;
  high += other.high;
  return *this;
}

Digest word_keys(std::uint64_t j) {
  const Digest block = block_keys(j / kDigestBlock);
  const std::uint64_t place = j % kDigestBlock;
  return {block.low * kPlaceKeys.low.at[place], block.high * kPlaceKeys.high.at[place]};
}

Digest digest_run(std::span<const std::byte> bytes, std::uint64_t global_byte_offset) {
  Digest sum;
  std::uint64_t word = global_byte_offset / kWordSize;
  if (const std::uint64_t position = global_byte_offset % kWordSize; position != 0) {
    const auto head = bytes.first(std::min<std::uint64_t>(kWordSize - position, bytes.size()));
    sum += part_of_word(head, word++, position);
    bytes = bytes.subspan(head.size());
  }
  const std::uint64_t words = bytes.size() / kWordSize;
  sum += word_run(bytes.data(), words, word);
  bytes = bytes.subspan(words * kWordSize);
  if (!bytes.empty()) sum += part_of_word(bytes, word + words, 0);
  return sum;
}

std::string to_text(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.low, digest.high);
}

std::optional<Digest> digest_from_text(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  if (text.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  Digest result;
  std::from_chars(text.data(), text.data() + 16, result.low, 16);
  std::from_chars(text.data() + 16, text.data() + 32, result.high, 16);
  return result;
}

}  // namespace lockstep
