#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/fully_shard.h"
#include "harness/train/module.h"
#include "harness/train/parameter_group.h"

namespace lockstep {

/// A module that is gathered and reduced as one, with the parameters that no such module inside of
/// it has.
struct ShardedUnit {
  Module* module = nullptr;
  std::string name;                     ///< in the root; empty: the root
  std::optional<ParameterGroup> group;  ///< absent: it has no parameters of its own
  TrainingState state = TrainingState::idle;
};

/// Shards `root` and `wrapped`, parts of it: a unit for each, those of a module before those of its
/// parts. Throws what the constructor of FullyShard throws.
std::vector<std::unique_ptr<ShardedUnit>> shard_units(Module& root,
                                                      const std::vector<Module*>& wrapped,
                                                      ProcessGroup& group,
                                                      const FullyShardOptions& options);

}  // namespace lockstep
