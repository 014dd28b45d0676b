#pragma once

#include <chrono>
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

std::vector<std::string> known_launchers();  ///< torchrun, mpirun, srun

/// Asks one of `known_launchers` for its version.
Capability find_launcher_capability(const std::string& name, std::chrono::milliseconds limit);

/// Named "gpus".
Capability find_gpu_capability(std::chrono::milliseconds limit);

}  // namespace lockstep
