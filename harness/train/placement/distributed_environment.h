#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "harness/launch/launcher.h"
#include "harness/train/placement/device_map.h"

namespace lockstep {

class ProcessGroup;

/// What a trainer finds out about the run it is in, before it loads a model.
struct DistributedEnvironment {
  bool is_distributed = false;  ///< more than one rank
  int global_rank = 0;          ///< among all ranks
  int local_rank = 0;           ///< among those of this machine; the index of its device
  int world_size = 1;
  int ranks_per_node = 1;
  bool has_process_group = false;  ///< which told the global rank and the size of the world
};

/// Place and size of an initialised process group.
struct GroupPlace {
  int rank = 0;  ///< the global one
  int size = 1;
};

/// The process group, where there is one, tells the global rank and the size of the world, else
/// RANK and WORLD_SIZE do. The place on the machine is always the environment's: LOCAL_RANK and
/// LOCAL_WORLD_SIZE. Where one of these is not set, that of Open MPI, MPICH or a step of Slurm is
/// taken. Without a number of ranks per machine there is one machine; without a place on it, ranks
/// are counted machine by machine.
///
/// Throws Error (usage), naming the variable, for what is no number, negative, or beyond the world
/// or the machine, and where several machines leave the global rank open.
DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const ProcessGroup* group = nullptr);
DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const std::optional<GroupPlace>& group);

/// The environment that a launcher gives to `global_rank` where every machine has `ranks_per_node`
/// ranks and the last one what is left: nodes are simulated by it.
Environment environment_of_rank(int global_rank, int world_size, int ranks_per_node);

/// What unsloth's helper for this (`prepare_device_map`) does and we do not, unless asked.
struct HelperMistakes {
  /// Where there is a process group, the device's index is the GLOBAL rank: right on one machine.
  bool takes_global_rank = false;
  /// That the current device could not be set is not said.
  bool ignores_failure = false;
};
HelperMistakes mistakes_of_the_helper();  ///< both

/// Makes a device the current one of this thread; throws where it is not there.
using SetCurrentDevice = std::function<void(at::Device device)>;

/// A whole model on every rank's own device: {"": "KIND:LOCAL_RANK"}, after `set_current` was
/// called with it. What `set_current` throws is passed on. `device_kind` is a type of torch's:
/// "cuda". Throws Error (usage) for a kind that torch does not know.
DeviceMap per_rank_device_map(const DistributedEnvironment& environment,
                              const std::string& device_kind, const SetCurrentDevice& set_current,
                              const HelperMistakes& mistakes = {});

}  // namespace lockstep
