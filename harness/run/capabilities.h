#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/capability.h"
#include "harness/plan/selection.h"

namespace lockstep {

/// Looks for a backend. nccl is available if its module was built and there is a GPU.
Capability find_backend_capability(Backend backend, std::chrono::milliseconds limit = kAnswerLimit);

/// The same GPUs in the form for a plan. LOCKSTEP_SHARE_GPU=1 lets ranks share them.
GpusHere gpus_for_plan(const Capability& gpus);

/// Throws Error (usage) if this build lacks `backend`. Does not look for GPUs.
void check_backend(Backend backend);

/// One word of `--require`.
struct Requirement {
  std::string name;  ///< of a capability
  int count = 0;     ///< number of GPUs
};

/// Parses "gloo,torchrun,gpus=2". Throws Error (usage) for an unknown name or an invalid number.
std::vector<Requirement> parse_requirements(const std::string& list);

/// Looks for all of `requirements`; `gpus`, if given, are not looked up again. Throws Error (unmet)
/// with one sentence for each unmet requirement.
void check_requirements(const std::vector<Requirement>& requirements,
                        const std::optional<Capability>& gpus = {});

}  // namespace lockstep
