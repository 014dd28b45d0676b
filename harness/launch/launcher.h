#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// A program that starts ranks, as PATH finds it.
struct Launcher {
  std::string path;     ///< empty: it is not on PATH
  std::string version;  ///< "Open MPI 4.1.4", "MPICH 4.0.2", "torch 2.11.0", "Slurm 22.05.8"
  std::string problem;  ///< why it cannot be relied upon; empty when it can
};

/// Looks for `name` (torchrun, mpirun, srun) on PATH and asks it for its version, at most `limit`.
/// Starts no ranks. torchrun has no option for that: its Python is asked for torch's version.
Launcher find_launcher(const std::string& name, std::chrono::milliseconds limit);

/// Reads one variable of the environment; null where it is not set, as std::getenv.
using Environment = std::function<const char*(const char* name)>;

/// What one launcher calls the numbers of a placement.
struct PlacementVariables {
  const char* launcher;  ///< "torchrun", "Open MPI's mpirun"
  const char* command;   ///< how it starts ranks on one machine, as `--launcher` takes it
  const char* rank;
  const char* required;  ///< stands beside `rank`, or the rank means something else
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  const char* job;  ///< tells the worlds of one launcher apart
};

/// The launchers in the order in which they are asked: inside a batch script of Slurm, mpirun may
/// have started this process.
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

/// The place in somebody else's world that the environment gives this process.
struct ForeignPlacement {
  const PlacementVariables* variables = nullptr;  ///< of the launcher; never null
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;  ///< of this machine; `world_size` where nothing says otherwise
  std::string job;           ///< empty where nothing says it
  std::string host;          ///< MASTER_ADDR with MASTER_PORT, where the ranks are told to meet
  int port = 0;
  bool is_served = false;  ///< the launcher itself serves the store there, and no rank may

  bool is_one_machine() const { return local_world_size == world_size; }
};

/// Whether a foreign launcher started this process, and where it put it. Throws Error (usage),
/// naming the variable, for what is no number or contradicts another one.
std::optional<ForeignPlacement> foreign_placement(const Environment& environment);

/// Removes a foreign placement from the environment of this process, so that a launcher which it
/// becomes hands out its own.
void forget_foreign_placement();

/// The program called `name` on PATH, or itself where it is a path; empty when there is none.
std::string find_program(const std::string& name);

}  // namespace lockstep
