#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/capability.h"
#include "harness/plan/selection.h"

namespace lockstep {

std::vector<std::string> known_backends();  ///< gloo, mpi, nccl

/// Looks for one of `known_backends`. nccl is there where its module was built and a GPU is there.
Capability find_backend_capability(const std::string& name,
                                   std::chrono::milliseconds limit = kAnswerLimit);

/// The same GPUs for a plan of cells. LOCKSTEP_SHARE_GPU=1 lets ranks share them.
GpusHere gpus_for_plan(const Capability& gpus);

/// Throws Error (usage) where this build has no `backend`. GPUs are not looked for.
void check_backend(const std::string& backend);

/// One word of `--require`.
struct Requirement {
  std::string name;  ///< of a capability
  int count = 0;     ///< for GPUs: how many
};

/// Reads "gloo,torchrun,gpus=2". Throws Error (usage) for a name or number that means nothing.
std::vector<Requirement> parse_requirements(const std::string& list);

/// Looks for all of `requirements`, but not again for `gpus` that were found. Throws Error (unmet)
/// with one sentence for each that this machine or this build does not meet.
void check_requirements(const std::vector<Requirement>& requirements,
                        const std::optional<Capability>& gpus = {});

}  // namespace lockstep
