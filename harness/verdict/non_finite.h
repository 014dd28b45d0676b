#pragma once

#include <string>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Where a job first observed elements that are not finite: "not finite, first in step 3: the
/// gradient of 2.weight on rank 1 (64 of 64 elements); finite on rank 0". Empty if all are finite,
/// or if a finding says so. Reads the rows of one step.
std::string first_non_finite_in_words(const StepReader& evidence,
                                      const std::vector<ClaimResult>& results);

}  // namespace lockstep
