#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Something that a run may need and that a machine or a build may lack.
struct Capability {
  std::string name;  ///< "gloo", "torchrun", "gpus"
  bool is_there = false;
  int count = 0;       ///< of GPUs
  std::string text;    ///< what it is, or why it is not there
  std::string remedy;  ///< how to get it; empty when it is there
};

/// How long a launcher or a driver may take to answer.
inline constexpr std::chrono::milliseconds kAnswerLimit{20'000};

std::vector<std::string> known_backends();   ///< gloo, mpi, nccl
std::vector<std::string> known_launchers();  ///< torchrun, mpirun, srun

/// Looks for one of `known_backends`, or of `known_launchers`. A launcher is asked for its version;
/// nccl is there where its module was built and a GPU is there.
Capability find_backend_capability(const std::string& name,
                                   std::chrono::milliseconds limit = kAnswerLimit);
Capability find_launcher_capability(const std::string& name, std::chrono::milliseconds limit);
Capability find_gpu_capability(std::chrono::milliseconds limit);

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
