#pragma once

#include <string>
#include <vector>

#include "reports/record/collective_mismatch.h"
#include "reports/record/finding.h"

namespace lockstep {

/// The collectives around the mismatch, with one line for each distinct call. A mark shows where
/// the ranks diverge:
///
///     collectives of the group world, side by side:
///       1  step 1  ranks 0,1,2: allreduce avg float32 [4], gradient of w at sync.cc:36
///     ! 2  step 2  ranks 0,2: allreduce avg float32 [4], gradient of w at sync.cc:36, waits 2.0 s
///                  rank 1: never called it
///
/// Ranks outside the group are omitted. Lines are not wrapped.
std::vector<std::string> mismatch_lines(const CollectiveMismatch& missed);

/// "rank 1", "ranks 0,2", "ranks 0-63": more than three consecutive ranks become a range.
std::string ranks_in_words(const std::vector<int>& ranks);

/// "ranks 0,2,3 against rank 1", "no two ranks agree"; empty if there are two ranks.
std::string parties_in_words(const Finding& finding);

}  // namespace lockstep
