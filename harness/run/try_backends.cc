#include "harness/run/try_backends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "harness/cli/doctor_command.h"
#include "harness/comm/modules.h"
#include "harness/comm/try_mpi.h"
#include "harness/launch/launcher.h"
#include "harness/launch/probe.h"
#include "harness/run/capabilities.h"
#include "harness/run/rehearsal.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

constexpr const char* kReduced = "two ranks reduced a tensor";

/// The programs that may be the mpirun of an MPI. Where both MPIs are installed, `mpirun` is that
/// of one.
struct MpiPrograms {
  const char* mpi;
  std::array<const char*, 2> launchers;
  const char* package;
};
constexpr std::array<MpiPrograms, 2> kMpiPrograms{
    MpiPrograms{"Open MPI", {"mpirun", "mpirun.openmpi"}, "openmpi-bin"},
    MpiPrograms{"MPICH", {"mpirun", "mpirun.mpich"}, "mpich"}};

const MpiPrograms& programs_of(const std::string& mpi) {
  for (const MpiPrograms& programs : kMpiPrograms) {
    if (programs.mpi == mpi) return programs;
  }
  throw internal_error("an MPI called " + mpi);
}

/// The path of an MPI's mpirun; empty if none is on PATH.
std::string mpirun_of(const MpiPrograms& programs, std::chrono::milliseconds limit) {
  for (const char* const name : programs.launchers) {
    const Launcher launcher = find_launcher(name, limit);
    if (launcher.version.starts_with(programs.mpi)) return launcher.path;
  }
  return {};
}

/// The first line with a letter: launchers frame their errors.
std::string first_words(const std::string& output) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (std::any_of(line.begin(), line.end(), is_letter)) return first_line(line);
  }
  return {};
}

/// How a trial by mpirun ended, in one sentence; empty if its ranks reduced the tensor.
std::string problem_of_trial(const Probe& trial) {
  if (trial.end.kind == ExitKind::finished) return {};
  const std::string words = first_words(trial.output);
  return exit_in_words(trial.end) + (words.empty() ? "" : ": " + words);
}

Probe start_two_ranks(const std::string& mpirun, std::chrono::milliseconds limit) {
  const std::string seconds = fmt::format("{}", std::chrono::duration<double>(limit).count());
  const std::vector<std::string> words{
      mpirun,   "-n",          "2",         fs::read_symlink("/proc/self/exe"),
      "doctor", kOneRankOfMpi, "--timeout", seconds};
  return probe(
      [&] {
        forget_foreign_placement();
        return become(words);
      },
      limit);
}

Capability try_one_mpi(const std::string& mpi, std::chrono::milliseconds limit) {
  const MpiPrograms& programs = programs_of(mpi);
  const std::string name = "mpi, " + mpi;
  const std::string mpirun = mpirun_of(programs, limit);
  if (mpirun.empty()) {
    return {name, false, 0, fmt::format("built in, not tried: no mpirun of {} is on PATH", mpi),
            fmt::format("apt install {}", programs.package)};
  }
  const std::string problem = problem_of_trial(start_two_ranks(mpirun, limit));
  if (problem.empty())
    return {name, true, 0, fmt::format("{}, started by {}", kReduced, mpirun), ""};
  return {name, false, 0,
          fmt::format("two ranks could not reduce a tensor: {} {}", mpirun, problem),
          fmt::format("see whether '{} -n 2 true' works, or use gloo", mpirun)};
}

/// With fewer than two GPUs, ranks of `run` would be refused.
Capability try_nccl(std::chrono::milliseconds limit) {
  if (!is_nccl_built()) return find_backend_capability(Backend::nccl, limit);
  const Capability gpus = find_gpu_capability(limit);
  if (!gpus.is_there) {
    return {"nccl", false, 0, "built in, not tried: there is no GPU: " + gpus.text, gpus.remedy};
  }
  if (gpus.count < 2 && !are_gpus_shared()) {
    return {"nccl", true, 0, "built in, not tried: two ranks need two GPUs, and there is one",
            "LOCKSTEP_SHARE_GPU=1 lets ranks share a GPU"};
  }
  const std::string problem = rehearse(limit, {Backend::nccl, DeviceKind::cuda});
  if (problem.empty()) return {"nccl", true, 0, fmt::format("{} on {}", kReduced, gpus.text), ""};
  return {"nccl", false, 0, problem, "see whether nvidia-smi works, or use gloo"};
}

}  // namespace

std::vector<Capability> try_backends(std::chrono::milliseconds limit) {
  std::vector<Capability> tried;
  const std::vector<std::string> mpis = built_mpis();
  if (mpis.empty()) tried.push_back(find_backend_capability(Backend::mpi, limit));
  for (const std::string& mpi : mpis) tried.push_back(try_one_mpi(mpi, limit));
  tried.push_back(try_nccl(limit));
  return tried;
}

void try_mpi_as_rank(std::chrono::milliseconds limit) {
  const auto placement = foreign_placement(::getenv);
  if (!placement) throw no_mpi_launcher();
  try_mpi({placement->rank,
           placement->world_size,
           placement->local_rank,
           placement->local_world_size,
           {}},
          limit);
}

}  // namespace lockstep
