#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Hyperparameters of optimizers that two jobs do not have alike, at the first step: "lr is 0.001
/// in A and 0.002 in B". Which kernels compute a step is none, and what one side does not say is
/// unknown.
std::vector<std::string> differing_hyperparameters(const JobRecord& a, const JobRecord& b);

/// Whether all optimizers of a job are known to update each element by its own gradients alone:
/// torch's, except those that need a whole matrix or evaluate the loss again.
bool has_optimizers_by_element(const JobRecord& job);

}  // namespace lockstep
