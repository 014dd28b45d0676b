#include "harness/train/sharded/sharded_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "reports/base/error.h"

namespace lockstep {

using Tensors = std::vector<at::Tensor>;

namespace {

using Units = std::vector<std::unique_ptr<ShardedUnit>>;

/// Parameter names by tensor.
using ParameterNames = std::unordered_map<const void*, std::string>;

ParameterNames names_of(const Module& root) {
  ParameterNames names;
  for (const NamedTensor& entry : root.named_parameters()) {
    names[entry.tensor.unsafeGetTensorImpl()] = entry.name;
  }
  return names;
}

std::set<Module*> modules_with_units(Module& root, const std::vector<Module*>& wrapped) {
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

/// A traversal of a model that visits each module once.
class Walk {
 public:
  Walk(const std::set<Module*>& with_unit, const ParameterNames& names, ParameterOrder order)
      : with_unit_(with_unit), names_(names), order_(order) {}

  void find_units(Module& module, const std::string& name, std::vector<FoundUnit>& units) {
    if (!visited_.insert(&module).second) return;
    if (with_unit_.count(&module) > 0) units.push_back({&module, name, {}});
    for (const Module::Part& part : module.children()) {
      find_units(*part.module, name_of_part(name, part.name), units);
    }
  }

  void find_parameters(Module& module, std::vector<NamedTensor>& parameters) {
    if (!visited_.insert(&module).second) return;
    if (order_ == ParameterOrder::own_first) add_own(module, parameters);
    for (const Module::Part& part : module.children()) {
      if (with_unit_.count(part.module) == 0) find_parameters(*part.module, parameters);
    }
    if (order_ == ParameterOrder::parts_first) add_own(module, parameters);
  }

 private:
  void add_own(const Module& module, std::vector<NamedTensor>& parameters) const {
    for (const NamedTensor& own : module.own_parameters()) {
      const bool is_listed =
          std::any_of(parameters.begin(), parameters.end(),
                      [&](const NamedTensor& listed) { return listed.tensor.is_same(own.tensor); });
      if (is_listed) continue;
      parameters.push_back({names_.at(own.tensor.unsafeGetTensorImpl()), own.tensor});
    }
  }

  const std::set<Module*>& with_unit_;
  const ParameterNames& names_;
  ParameterOrder order_;
  std::set<Module*> visited_;
};

std::vector<ShardedParameter> shard_all(const std::vector<NamedTensor>& parameters,
                                        const ProcessGroup& group,
                                        const FullyShardOptions& options) {
  std::vector<ShardedParameter> sharded;
  for (const NamedTensor& entry : parameters) {
    if (entry.tensor.numel() > 0 && entry.tensor.storage().nbytes() == 0) {
      throw internal_error(fmt::format("the parameter '{}' is sharded already", entry.name));
    }
    sharded.emplace_back(entry.name, entry.tensor, group.rank(), group.size(), options.param_dtype);
  }
  return sharded;
}

}  // namespace

std::vector<FoundUnit> find_units(Module& root, const std::vector<Module*>& wrapped,
                                  ParameterOrder order) {
  const ParameterNames names = names_of(root);
  const std::set<Module*> with_unit = modules_with_units(root, wrapped);
  std::vector<FoundUnit> units;
  Walk(with_unit, names, order).find_units(root, "", units);
  if (units.size() != with_unit.size()) {
    throw internal_error("a module is to be sharded that is no part of the root");
  }
  for (FoundUnit& unit : units) {
    Walk(with_unit, names, order).find_parameters(*unit.module, unit.parameters);
  }
  return units;
}

Units shard_units(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
                  const FullyShardOptions& options) {
  Units units;
  // Parts first: torch's order of parameters in collectives.
  for (FoundUnit& found : find_units(root, wrapped, ParameterOrder::parts_first)) {
    units.push_back(std::make_unique<ShardedUnit>());
    ShardedUnit& unit = *units.back();
    unit.module = found.module;
    unit.name = found.name;
    std::erase_if(found.parameters, [&](const NamedTensor& entry) {
      return std::any_of(options.ignored_params.begin(), options.ignored_params.end(),
                         [&](const at::Tensor& ignored) { return ignored.is_same(entry.tensor); });
    });
    if (found.parameters.empty()) continue;
    ParameterGroupOptions group_options;
    group_options.reduce_dtype = options.reduce_dtype;
    group_options.reshard_after_forward =
        options.reshard_after_forward.value_or(found.module != &root);
    unit.group.emplace(unit.name, shard_all(found.parameters, group, options), group,
                       group_options);
  }
  return units;
}

void wrap_calls_with_lists(
    Module& module,
    std::function<Tensors(const Tensors& inputs, const ShardedModel::Forward& forward)> around) {
  module.wrap_calls(
      [around = std::move(around)](const at::Tensor& input, const Module::Forward& forward) {
        const ShardedModel::Forward of_lists = [&](const Tensors& inputs) {
          return Tensors{forward(inputs.front())};
        };
        return around({input}, of_lists).front();
      });
}

}  // namespace lockstep
