#pragma once

#include <string>
#include <vector>

#include "reports/record/collective_mismatch.h"

namespace lockstep {

/// The collectives around the one that ranks missed, a line for every different thing that ranks
/// did in it, behind a mark where they part:
///
///     collectives of the group world, side by side:
///       1  step 1  ranks 0,1,2: allreduce avg float32 [4], gradient of w at sync.cc:36
///     ! 2  step 2  ranks 0,2: allreduce avg float32 [4], gradient of w at sync.cc:36, waits 2.0 s
///                  rank 1: never called it
///
/// Ranks outside of the group are left out. Lines are as long as they come out.
std::vector<std::string> mismatch_lines(const CollectiveMismatch& missed);

/// "rank 1", "ranks 0,2", "ranks 0-63": more than three in a row together.
std::string ranks_in_words(const std::vector<int>& ranks);

}  // namespace lockstep
