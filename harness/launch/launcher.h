#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// A program on PATH that starts ranks.
struct Launcher {
  std::string path;     ///< empty: not on PATH
  std::string version;  ///< "Open MPI 4.1.4", "MPICH 4.0.2", "torch 2.11.0", "Slurm 22.05.8"
  std::string problem;  ///< why it is unreliable; empty if it is not
};

/// Finds `name` (torchrun, mpirun, srun) on PATH and asks for its version, within `limit`. Starts
/// no ranks. torchrun has no option for that, so its Python is asked for torch's version.
Launcher find_launcher(const std::string& name, std::chrono::milliseconds limit);

/// Reads one environment variable; null if it is unset, like std::getenv.
using Environment = std::function<const char*(const char* name)>;

/// Environment variables of one launcher for a placement.
struct PlacementVariables {
  const char* launcher;  ///< "torchrun", "Open MPI's mpirun"
  const char* command;   ///< command that starts ranks on one machine, as for `--launcher`
  const char* rank;
  const char* required;  ///< must accompany `rank`, which means something else otherwise
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  const char* job;  ///< distinguishes the worlds of one launcher
};

/// The launchers in the order of the checks: inside a batch script of Slurm, mpirun may have
/// started this process.
inline constexpr std::array<PlacementVariables, 4> kPlacementVariables{
    PlacementVariables{"torchrun", "torchrun --no-python --nproc-per-node {ranks}", "RANK",
                       "WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                       "TORCHELASTIC_RUN_ID"},
    PlacementVariables{"Open MPI's mpirun", "mpirun -n {ranks}", "OMPI_COMM_WORLD_RANK",
                       "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                       "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    PlacementVariables{"MPICH's mpirun", "mpirun -n {ranks}", "PMI_RANK", "PMI_RANK", "PMI_SIZE",
                       "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
    PlacementVariables{"srun", "srun -n {ranks}", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_NTASKS",
                       "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_ID"}};

/// This process' placement in a world that another launcher started, according to the environment.
struct ForeignPlacement {
  const PlacementVariables* variables = nullptr;  ///< of the launcher; never null
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;  ///< on this machine; `world_size` if not specified
  std::string job;           ///< empty if not specified
  std::string host;          ///< MASTER_ADDR with MASTER_PORT, the ranks' rendezvous
  int port = 0;
  bool is_served = false;  ///< the launcher serves the store there, so no rank may

  bool is_one_machine() const { return local_world_size == world_size; }
};

/// The placement by a foreign launcher; empty if none started this process. Throws Error (usage),
/// naming the variable, for a value that is not a number or contradicts another one.
std::optional<ForeignPlacement> foreign_placement(const Environment& environment);

/// Removes a foreign placement from the environment of this process. A launcher that replaces this
/// process then assigns its own.
void forget_foreign_placement();

/// The program `name` on PATH, or `name` itself if it is a path; empty if there is none.
std::string find_program(const std::string& name);

/// The program `name` in an absolute folder of PATH; empty if there is none. For programs that
/// nobody named: one in the working folder is never meant.
std::string find_installed_program(const std::string& name);

}  // namespace lockstep
