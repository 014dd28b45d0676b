#pragma once

#include <chrono>

#include "harness/launch/launch.h"

namespace lockstep {

/// Reduces one tensor with the other ranks of the world in which MPI's launcher started this
/// process as `placement`'s rank, and leaves the world. Throws Error (usage) as a cell over MPI
/// would, or the exception of the call that failed. `timeout` limits each call.
void try_mpi(const RankPlacement& placement, std::chrono::milliseconds timeout);

}  // namespace lockstep
