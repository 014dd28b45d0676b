#pragma once

#include "harness/train/sharded/zero.h"
#include "reports/record/cell.h"

namespace lockstep {

// What scenarios about tiles under ZeRO share: variants are called "zero-1-...", "zero-2-..." or
// "zero-3-..." by their stage, and on the axis `bucket` a small one takes one gradient.

ZeroOptions zero_options(const Cell& cell);

/// Whether tiles that are reduced one by one give wrong gradients. Where the bucket is small it is
/// reduced between two tiles. Where it is not, all entries of a parameter reduce the sum of its
/// tiles, which stage 3 adds up in all micro-batches but the first.
bool does_zero_miscount_tiles(const Cell& cell);

}  // namespace lockstep
