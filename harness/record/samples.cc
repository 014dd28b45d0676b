#include "harness/record/samples.h"

#include "harness/record/list_digest.h"

namespace lockstep {

Digest digest_of_samples(std::span<const std::byte> bytes, std::int64_t count) {
  Digest sum;
  if (count == 0) return sum;
  const std::size_t size = bytes.size() / static_cast<std::size_t>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    ListDigest sample;
    sample.add(digest_run(bytes.subspan(static_cast<std::size_t>(i) * size, size), 0));
    sum += sample.digest();
  }
  return sum;
}

}  // namespace lockstep
