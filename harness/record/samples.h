#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "harness/record/digest.h"

namespace lockstep {

/// Digest of a set of samples: the sum of the list digests of their `lockstep-2`. So the sets of
/// micro-batches and ranks add up, in any order; equal samples count as often as they occur.
/// `bytes` are the samples, each of the same number of bytes. Requires: `count` divides their size.
Digest digest_of_samples(std::span<const std::byte> bytes, std::int64_t count);

}  // namespace lockstep
