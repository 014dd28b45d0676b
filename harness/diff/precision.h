#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Unit roundoff of the coarsest type that a job is known to have computed in by a step, on any
/// rank, where its tensors do not show it; 0: none is known.
double computed_roundoff(const JobRecord& job, std::int64_t step);

/// Differences between two jobs: "autocast cpu is absent in A and bfloat16 in B".
std::vector<std::string> differing_precisions(const JobRecord& a, const JobRecord& b);

}  // namespace lockstep
