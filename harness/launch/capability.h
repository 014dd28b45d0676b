#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

/// A resource that a run may need and that a machine or build may lack.
struct Capability {
  std::string name;  ///< "gloo", "torchrun", "gpus"
  bool is_there = false;
  int count = 0;       ///< of GPUs
  std::string text;    ///< description, or why it is missing
  std::string remedy;  ///< how to get it; empty if it is available
};

/// Time limit for an answer of a launcher or driver.
inline constexpr std::chrono::milliseconds kAnswerLimit{20'000};

std::vector<std::string> known_launchers();  ///< torchrun, mpirun, srun

/// Asks one of `known_launchers` for its version.
Capability find_launcher_capability(const std::string& name, std::chrono::milliseconds limit);

/// Finds the GPUs, as a capability named "gpus".
Capability find_gpu_capability(std::chrono::milliseconds limit);

}  // namespace lockstep
