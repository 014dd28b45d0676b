#pragma once

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

/// The place in somebody else's world that the environment gives this process.
struct ForeignSeat {
  std::string launcher;  ///< "torchrun", "Open MPI's mpirun"
  std::string rank;      ///< as the variable says it
  std::string world_size;
};

/// Reads one variable of the environment; null where it is not set, as std::getenv.
using Environment = std::function<const char*(const char* name)>;

/// Whether a foreign launcher started this process. Inside a batch script of Slurm, mpirun may have
/// started it: Open MPI and MPICH are asked first.
std::optional<ForeignSeat> foreign_seat(const Environment& environment);

}  // namespace lockstep
