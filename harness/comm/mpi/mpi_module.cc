// The exported function of the module; LOCKSTEP_MPI_NAME and LOCKSTEP_MPI_LAUNCHER name the MPI it
// was built with.

#include <cstdlib>
#include <string>

#include "harness/comm/backend.h"
#include "harness/comm/mpi/mpi_backend.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

MpiOrder wanted_order() {
  const char* const word = std::getenv("LOCKSTEP_MPI_ORDER");
  const std::string order = word ? word : "rank";
  if (order == "rank") return MpiOrder::rank_order;
  if (order == "library") return MpiOrder::library;
  throw bad_value("LOCKSTEP_MPI_ORDER", order, "rank or library");
}

c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                       const RankPlacement& placement,
                                       std::chrono::milliseconds timeout) {
  const MpiOrder order = wanted_order();
  const auto group = MpiGroup::create();
  if (group->size() != placement.world_size) {
    throw other_mpi(LOCKSTEP_MPI_NAME, LOCKSTEP_MPI_LAUNCHER, group->size(), placement.world_size);
  }
  if (group->rank() != placement.rank) {
    throw internal_error("rank " + std::to_string(placement.rank) + " is rank " +
                         std::to_string(group->rank()) + " of MPI");
  }
  return c10::make_intrusive<MpiBackend>(group, timeout, order);
}

}  // namespace

}  // namespace lockstep

lockstep::BackendFactory lockstep_backend_factory() { return lockstep::make; }
