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

/// Order of the parameters of a unit: a module's own before those of its parts, like
/// named_parameters(), or after them.
enum class ParameterOrder { own_first, parts_first };

/// A module to be gathered and reduced as one, with its parameters, each once. Parameters of such
/// modules inside it are excluded.
struct FoundUnit {
  Module* module = nullptr;
  std::string name;  ///< in the root; empty: the root
  std::vector<NamedTensor> parameters;
};

/// The units of `root` and of `wrapped`, parts of it; a module comes before its parts. Throws Error
/// (internal) for a module that is not a part of `root` or is listed twice.
std::vector<FoundUnit> find_units(Module& root, const std::vector<Module*>& wrapped,
                                  ParameterOrder order);

/// A module that is gathered and reduced as one, with its parameters. Those of such modules inside
/// it are excluded.
struct ShardedUnit {
  Module* module = nullptr;
  std::string name;                     ///< in the root; empty: the root
  std::optional<ParameterGroup> group;  ///< absent: it has no parameters of its own
  TrainingState state = TrainingState::idle;
};

/// Shards the units found by `find_units`. Throws like the constructor of FullyShard.
std::vector<std::unique_ptr<ShardedUnit>> shard_units(Module& root,
                                                      const std::vector<Module*>& wrapped,
                                                      ProcessGroup& group,
                                                      const FullyShardOptions& options);

/// `Module::wrap_calls` for an `around` that takes lists of tensors, for a forward of any
/// signature.
void wrap_calls_with_lists(
    Module& module, std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs,
                                                          const ShardedModel::Forward& forward)>
                        around);

}  // namespace lockstep
