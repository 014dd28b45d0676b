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

/// Makes a backend of c10d for `placement`'s rank, which meets its peers in `store`. `timeout` is
/// that of one collective, and of meeting. Blocks until all ranks are there; throws c10::Error
/// else.
using BackendFactory = c10::intrusive_ptr<c10d::Backend> (*)(
    const c10::intrusive_ptr<c10d::Store>& store, const RankPlacement& placement,
    std::chrono::milliseconds timeout);

/// A backend that can be asked for: its name is c10d's too.
struct BackendEntry {
  std::string name;
  c10::DeviceType device;  ///< of the tensors it takes
  BackendFactory make;
};

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout);

/// Loads the module of the MPI whose launcher started this process. Throws Error (usage) where none
/// did, where there is no such module, or where the ranks of MPI are not those of the launcher.
c10::intrusive_ptr<c10d::Backend> make_mpi(const c10::intrusive_ptr<c10d::Store>& store,
                                           const RankPlacement& placement,
                                           std::chrono::milliseconds timeout);

/// Loads the module of NCCL. Throws Error (usage) where there is none, or too few GPUs.
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout);

}  // namespace lockstep

/// What a module exports. A module and the program that loads it come from one build.
extern "C" [[gnu::visibility("default")]] lockstep::BackendFactory lockstep_backend_factory();
