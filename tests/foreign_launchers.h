#pragma once

#include <cstdlib>

namespace lockstep {

/// For the processes that a test starts from now on. Unless told otherwise, Open MPI starts nothing
/// as root and no more ranks than there are cores.
inline void allow_foreign_launchers() {
  for (const char* const name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                 "OMPI_MCA_rmaps_base_oversubscribe", "PRTE_ALLOW_RUN_AS_ROOT",
                                 "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"}) {
    ::setenv(name, "1", 1);
  }
}

}  // namespace lockstep
