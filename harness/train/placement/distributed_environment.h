#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>

#include "harness/launch/launcher.h"
#include "harness/train/placement/device_map.h"

namespace lockstep {

class ProcessGroup;

/// A trainer's view of its run, before it loads a model.
struct DistributedEnvironment {
  bool is_distributed = false;  ///< more than one rank
  int global_rank = 0;          ///< among all ranks
  int local_rank = 0;           ///< among the ranks of this machine; the index of its device
  int world_size = 1;
  int ranks_per_node = 1;
  bool has_process_group = false;  ///< source of the global rank and the world size
};

/// Rank and size of an initialised process group.
struct GroupPlace {
  int rank = 0;  ///< the global rank
  int size = 1;
};

/// If there is a process group, it gives the global rank and the world size; otherwise RANK and
/// WORLD_SIZE do. The local placement always comes from the environment: LOCAL_RANK and
/// LOCAL_WORLD_SIZE. If one of these is not set, the variable of Open MPI, MPICH or a step of Slurm
/// is used. Without a number of ranks per machine there is one machine. Without a local rank, ranks
/// are counted machine by machine.
///
/// Throws Error (usage), naming the variable, for a value that is not a number, negative, or beyond
/// the world or the machine. Also throws if several machines leave the global rank undetermined.
DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const ProcessGroup* group = nullptr);
DistributedEnvironment find_distributed_environment(const Environment& environment,
                                                    const std::optional<GroupPlace>& group);

/// A launcher's environment for `global_rank` if every machine has `ranks_per_node` ranks and the
/// last one the remainder. It simulates several nodes.
Environment environment_of_rank(int global_rank, int world_size, int ranks_per_node);

/// Mistakes of unsloth's helper (`prepare_device_map`), off by default here.
struct HelperMistakes {
  /// With a process group, uses the GLOBAL rank as the device's index: correct on one machine.
  bool takes_global_rank = false;
  /// Does not report that the current device could not be set.
  bool ignores_failure = false;
};
HelperMistakes mistakes_of_the_helper();  ///< both

/// Sets the current device of this thread; throws if it does not exist.
using SetCurrentDevice = std::function<void(at::Device device)>;

/// A whole model on every rank's own device: {"": "KIND:LOCAL_RANK"}, after calling `set_current`
/// with it. Exceptions of `set_current` are passed on. `device_kind` is a device type of torch:
/// "cuda". Throws Error (usage) for a kind that torch does not know.
DeviceMap per_rank_device_map(const DistributedEnvironment& environment,
                              const std::string& device_kind, const SetCurrentDevice& set_current,
                              const HelperMistakes& mistakes = {});

}  // namespace lockstep
