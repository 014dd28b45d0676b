#pragma once

#include <string>
#include <vector>

#include "harness/launch/launcher.h"

namespace lockstep {

/// Backends whose libraries not every machine has are modules: shared libraries that are loaded
/// when they are asked for. They lie in `lib/lockstep` of the prefix that the program is in, of a
/// build too.

/// The MPIs that this build has a module for: "Open MPI", "MPICH".
std::vector<std::string> built_mpis();

bool is_nccl_built();

/// Whether LOCKSTEP_SHARE_GPU=1 lets ranks over NCCL share GPUs where there are too few.
bool are_gpus_shared();

/// The MPI whose launcher started this process, or "" where none did. LOCKSTEP_MPI (openmpi or
/// mpich) overrules what the environment looks like. srun speaks PMIx with Open MPI and PMI with
/// MPICH. Throws Error (usage) where LOCKSTEP_MPI is anything else.
std::string launching_mpi(const Environment& environment);

}  // namespace lockstep
