#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/process_group.h"
#include "harness/train/nn/module.h"
#include "harness/train/sharded/fully_shard.h"
#include "harness/train/sharded/parameter_group.h"
#include "harness/train/sharded/sharded_model.h"

namespace lockstep {

/// How the parameters of a unit follow each other: a module's own before those of its parts, as
/// named_parameters() has them, or behind them.
enum class ParameterOrder { own_first, parts_first };

/// A module that is to be gathered and reduced as one, with the parameters that no such module
/// inside of it has, each once.
struct FoundUnit {
  Module* module = nullptr;
  std::string name;  ///< in the root; empty: the root
  std::vector<NamedTensor> parameters;
};

/// The units of `root` and of `wrapped`, parts of it: those of a module before those of its parts.
/// Throws Error (internal) for a module that is no part of `root` or is there twice.
std::vector<FoundUnit> find_units(Module& root, const std::vector<Module*>& wrapped,
                                  ParameterOrder order);

/// A module that is gathered and reduced as one, with the parameters that no such module inside of
/// it has.
struct ShardedUnit {
  Module* module = nullptr;
  std::string name;                     ///< in the root; empty: the root
  std::optional<ParameterGroup> group;  ///< absent: it has no parameters of its own
  TrainingState state = TrainingState::idle;
};

/// Shards the units that `find_units` finds. Throws what the constructor of FullyShard throws.
std::vector<std::unique_ptr<ShardedUnit>> shard_units(Module& root,
                                                      const std::vector<Module*>& wrapped,
                                                      ProcessGroup& group,
                                                      const FullyShardOptions& options);

/// `Module::wrap_calls` for an `around` that takes lists of tensors, as a forward of any signature
/// has them.
void wrap_calls_with_lists(
    Module& module, std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs,
                                                          const ShardedModel::Forward& forward)>
                        around);

}  // namespace lockstep
