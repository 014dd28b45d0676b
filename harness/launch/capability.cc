#include "harness/launch/capability.h"

#include <fmt/format.h>

#include <map>

#include "harness/launch/gpus.h"
#include "harness/launch/launcher.h"

namespace lockstep {

namespace {

std::string how_to_get_launcher(const std::string& name) {
  static const std::map<std::string, std::string> ways{
      {"torchrun", "pip install torch, and put the folder of that pip on PATH"},
      {"mpirun", "apt install openmpi-bin, or mpich"},
      {"srun", "it comes with Slurm: use a machine of a cluster"}};
  return ways.at(name);
}

/// "2 x NVIDIA H200, 1 x NVIDIA L4"
std::string counted(const std::vector<std::string>& names) {
  std::map<std::string, int> counts;
  for (const std::string& name : names) ++counts[name];
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  }
  return text;
}

}  // namespace

std::vector<std::string> known_launchers() { return {"torchrun", "mpirun", "srun"}; }

Capability find_launcher_capability(const std::string& name, std::chrono::milliseconds limit) {
  const Launcher launcher = find_launcher(name, limit);
  if (launcher.path.empty()) return {name, false, 0, "not on PATH", how_to_get_launcher(name)};
  if (launcher.problem.empty()) {
    return {name, true, 0, fmt::format("{}, {}", launcher.version, launcher.path), ""};
  }
  return {name, false, 0, fmt::format("{}: {}", launcher.path, launcher.problem),
          fmt::format("see why '{} --help' does not work, or {}", launcher.path,
                      how_to_get_launcher(name))};
}

Capability find_gpu_capability(std::chrono::milliseconds limit) {
  const Gpus gpus = find_gpus(limit);
  if (!gpus.problem.empty()) return {"gpus", false, 0, gpus.problem, gpus.remedy};
  return {"gpus", true, static_cast<int>(gpus.names.size()), counted(gpus.names), ""};
}

}  // namespace lockstep
