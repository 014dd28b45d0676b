#include "harness/train/sharded_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "reports/error.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;
using Units = std::vector<std::unique_ptr<ShardedUnit>>;

/// ParameterNames by tensor.
using ParameterNames = std::unordered_map<const void*, std::string>;

ParameterNames names_of(const Module& root) {
  ParameterNames names;
  for (const auto& [name, tensor] : root.named_parameters()) {
    names[tensor.unsafeGetTensorImpl()] = name;
  }
  return names;
}

std::set<Module*> modules_with_groups(Module& root, const std::vector<Module*>& wrapped) {
  std::set<Module*> modules(wrapped.begin(), wrapped.end());
  modules.insert(&root);
  if (modules.size() != wrapped.size() + 1) {
    throw internal_error("a module is to be sharded twice, or the root beside itself");
  }
  return modules;
}

std::string name_of_part(const std::string& whole, const std::string& part) {
  return whole.empty() ? part : whole + "." + part;
}

/// A walk over a model that comes to each module once.
class Walk {
 public:
  explicit Walk(const std::set<Module*>& with_group) : with_group_(with_group) {}

  void find_units(Module& module, const std::string& name, Units& units) {
    if (!visited_.insert(&module).second) return;
    if (with_group_.count(&module) > 0) {
      units.push_back(std::make_unique<ShardedUnit>());
      units.back()->module = &module;
      units.back()->name = name;
    }
    for (const Module::Part& part : module.children()) {
      find_units(*part.module, name_of_part(name, part.name), units);
    }
  }

  /// Those of the parts first: torch's order, in which they lie behind one another in collectives.
  void find_parameters(Module& module, Tensors& parameters) {
    if (!visited_.insert(&module).second) return;
    for (const Module::Part& part : module.children()) {
      if (with_group_.count(part.module) == 0) find_parameters(*part.module, parameters);
    }
    for (const NamedTensor& own : module.own_parameters()) {
      const bool is_listed =
          std::any_of(parameters.begin(), parameters.end(),
                      [&](const at::Tensor& listed) { return listed.is_same(own.tensor); });
      if (!is_listed) parameters.push_back(own.tensor);
    }
  }

 private:
  const std::set<Module*>& with_group_;
  std::set<Module*> visited_;
};

std::vector<ShardedParameter> shard_all(const Tensors& parameters, const ParameterNames& names,
                                        const ProcessGroup& group,
                                        const FullyShardOptions& options) {
  std::vector<ShardedParameter> sharded;
  for (const at::Tensor& parameter : parameters) {
    const std::string& name = names.at(parameter.unsafeGetTensorImpl());
    if (parameter.numel() > 0 && parameter.storage().nbytes() == 0) {
      throw internal_error(fmt::format("the parameter '{}' is sharded already", name));
    }
    sharded.emplace_back(name, parameter, group.rank(), group.size(), options.param_dtype);
  }
  return sharded;
}

}  // namespace

Units shard_units(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
                  const FullyShardOptions& options) {
  const ParameterNames names = names_of(root);
  const std::set<Module*> with_group = modules_with_groups(root, wrapped);
  Units units;
  Walk(with_group).find_units(root, "", units);
  if (units.size() != with_group.size()) {
    throw internal_error("a module is to be sharded that is no part of the root");
  }
  for (const auto& unit : units) {
    Tensors parameters;
    Walk(with_group).find_parameters(*unit->module, parameters);
    if (parameters.empty()) continue;
    ParameterGroupOptions group_options;
    group_options.reduce_dtype = options.reduce_dtype;
    group_options.reshard_after_forward =
        options.reshard_after_forward.value_or(unit->module != &root);
    unit->group.emplace(unit->name, shard_all(parameters, names, group, options), group,
                        group_options);
  }
  return units;
}

}  // namespace lockstep
