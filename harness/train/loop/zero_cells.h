#pragma once

#include "harness/train/rank/rank.h"
#include "harness/train/sharded/zero.h"
#include "reports/record/cell.h"

namespace lockstep {

/// ZeRO's options, by the conditions `stage` (1, 2, 3) and `bucket` (small: one gradient fills it).
ZeroOptions zero_options(const Rank& rank);

/// Whether reducing tiles one by one gives wrong gradients. A small bucket is reduced between two
/// tiles. In a larger one all entries of a parameter reduce the sum of its tiles, which stage 3
/// adds up in all micro-batches except the first.
bool does_zero_miscount_tiles(const Cell& cell);

}  // namespace lockstep
