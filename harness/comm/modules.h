#pragma once

#include <string>
#include <vector>

#include "harness/launch/launcher.h"

namespace lockstep {

/// Backends that need optional libraries are modules: shared libraries loaded on demand. They lie
/// in `lib/lockstep` of the program's prefix, including a build tree's.

/// The MPIs that this build has a module for: "Open MPI", "MPICH".
std::vector<std::string> built_mpis();

bool is_nccl_built();

/// Whether LOCKSTEP_SHARE_GPU=1 lets NCCL ranks share GPUs if there are too few.
bool are_gpus_shared();

/// The MPI whose launcher started this process, or "" if none did. LOCKSTEP_MPI (openmpi or mpich)
/// overrides the environment's evidence. srun uses PMIx with Open MPI and PMI with MPICH. Throws
/// Error (usage) if LOCKSTEP_MPI has another value.
std::string launching_mpi(const Environment& environment);

}  // namespace lockstep
