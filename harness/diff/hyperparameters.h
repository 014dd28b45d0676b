#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Hyperparameters of optimizers that two jobs do not have alike, at the first step: "lr is 0.001
/// in A and 0.002 in B". Which kernels compute a step is none, and what one side does not say is
/// unknown. `offset`: of B's steps: if they are others than A's, those that schedules change are
/// left out.
std::vector<std::string> differing_hyperparameters(const JobRecord& a, const JobRecord& b,
                                                   std::int64_t offset);

/// Whether schedules of learning rates change a hyperparameter.
bool is_scheduled(const std::string& name);

/// Whether all optimizers of a job are known to update each element by its own gradients alone:
/// torch's, except those that need a whole matrix or evaluate the loss again.
bool has_optimizers_by_element(const JobRecord& job);

/// Whether an optimizer of a job is torch's Muon.
bool has_muon(const JobRecord& job);

/// Whether an optimizer of a job was given scaled gradients, and takes the scale back in its step:
/// a fused one with torch's GradScaler.
bool has_scaled_gradients(const JobRecord& job);

}  // namespace lockstep
