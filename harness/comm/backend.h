#pragma once

#include <c10/core/DeviceType.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

#include "harness/launch/launch.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace lockstep {

/// Creates a c10d backend for `placement`'s rank, with its rendezvous in `store`. `timeout` limits
/// each collective and the rendezvous. Blocks until all ranks are there; otherwise throws
/// c10::Error.
using BackendFactory = c10::intrusive_ptr<c10d::Backend> (*)(
    const c10::intrusive_ptr<c10d::Store>& store, const RankPlacement& placement,
    std::chrono::milliseconds timeout);

/// An available backend: its name is c10d's too.
struct BackendEntry {
  Backend backend = Backend::gloo;
  c10::DeviceType device;  ///< of its tensors
  BackendFactory make;
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout);

/// Loads the module of the MPI whose launcher started this process. Throws Error (usage) if no MPI
/// launcher started it, if there is no such module, or if MPI's ranks are not the launcher's.
c10::intrusive_ptr<c10d::Backend> make_mpi(const c10::intrusive_ptr<c10d::Store>& store,
                                           const RankPlacement& placement,
                                           std::chrono::milliseconds timeout);

/// Loads the NCCL module. Throws Error (usage) if there is none, or too few GPUs.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout);

}  // namespace lockstep

/// The export of a module. A module and the program that loads it come from one build.
extern "C" [[gnu::visibility("default")]] lockstep::BackendFactory lockstep_backend_factory();
