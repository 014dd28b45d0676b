#pragma once

#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// The most cells that run at a time.
inline constexpr int kMostJobs = 64;

/// How many of `cells` run at a time where nobody says: four times as many as have a core for each
/// rank, at least 2, since ranks mostly wait, but no more than the memory that is free now and the
/// limits of processes and threads hold.
int default_jobs(const std::vector<PlannedCell>& cells);

/// The size of the largest world that is to run; 0: none is.
int most_ranks(const std::vector<PlannedCell>& cells);

}  // namespace lockstep
