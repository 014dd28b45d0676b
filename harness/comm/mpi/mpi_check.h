#pragma once

#include <mpi.h>

namespace lockstep {

/// Throws c10::Error (DistBackendError) with the name `what` of the call and MPI's own message,
/// unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

}  // namespace lockstep
