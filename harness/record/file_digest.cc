#include "harness/record/file_digest.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "reports/base/file_limits.h"

namespace lockstep {

Digest digest_of(const RegularFile& file, std::uint64_t begin, std::uint64_t size) {
  constexpr std::uint64_t kChunk = 4 * kMebibyte;
  Digest digest;
  for (std::uint64_t at = 0; at < size; at += kChunk) {
    const std::string bytes = file.read(begin + at, std::min(kChunk, size - at));
    digest += digest_run(std::as_bytes(std::span(bytes)), at);
  }
  return digest;
}

}  // namespace lockstep
