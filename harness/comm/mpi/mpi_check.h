#pragma once

#include <mpi.h>

namespace lockstep {

/// Throws c10::Error (DistBackendError) with `what` was called and MPI's own words, unless `code`
/// is MPI_SUCCESS.
void check_mpi(int code, const char* what);

}  // namespace lockstep
