#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "harness/launch/capability.h"

namespace lockstep {

/// Lets two ranks reduce a tensor over each MPI and over NCCL, as far as they are built in, and
/// says how that ended: one capability for each. MPI's ranks are started by its own mpirun from
/// PATH. What lacks a launcher or GPUs is not tried. Each trial, and each question about a
/// launcher, ends after `limit`.
std::vector<Capability> try_backends(std::chrono::milliseconds limit);

/// The body of a rank of the trial over MPI, in a process that mpirun started. Throws Error
/// (usage), or the exception of the call that failed.
void try_mpi_as_rank(std::chrono::milliseconds limit);

}  // namespace lockstep
