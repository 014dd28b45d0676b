#pragma once

#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// Maximum cells that run at a time.
inline constexpr int kMostJobs = 64;

/// Default number of `cells` to run at a time. It is four times the number of cells that have a
/// core for each rank, and at least 2, since ranks mostly wait. The free memory and the limits of
/// processes and threads cap it.
int default_jobs(const std::vector<PlannedCell>& cells);

/// The largest world size to be run; 0: none.
int most_ranks(const std::vector<PlannedCell>& cells);

}  // namespace lockstep
