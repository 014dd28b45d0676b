#include "harness/train/sharded/fully_shard.h"

#include <torch/csrc/autograd/graph_task.h>

#include <unordered_map>
#include <utility>

#include "harness/train/autograd/backward_watch.h"
#include "harness/train/sharded/parameter_group.h"
#include "harness/train/sharded/sharded_units.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

bool is_in_backward() { return torch::autograd::get_current_graph_task_id() != -1; }

at::Tensor cast(const at::Tensor& tensor, std::optional<at::ScalarType> dtype) {
  return dtype && tensor.is_floating_point() ? tensor.to(*dtype) : tensor;
}

}  // namespace

struct FullyShard::State : std::enable_shared_from_this<State> {
  State(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& ranks,
        FullyShardOptions asked);

  void wrap_modules();
  ShardedUnit& unit_of(const Module& module);
  Tensors call(ShardedUnit& unit, const Tensors& inputs, const Forward& forward);

  Module& root;
  FullyShardOptions options;
  std::vector<std::unique_ptr<ShardedUnit>> units;  // the root first
  std::vector<NamedShard> shards;

 private:
  Tensors before_forward(ShardedUnit& unit, const Tensors& inputs);
  Tensors after_forward(ShardedUnit& unit, const Tensors& outputs);
  void before_backward(ShardedUnit& unit);
  void gather_ahead(ParameterGroup& group);
  void finish_backward();

  std::vector<ParameterGroup*> post_forward_order_;
  bool is_finish_queued_ = false;
};

FullyShard::State::State(Module& whole, const std::vector<Module*>& wrapped, ProcessGroup& group,
                         FullyShardOptions asked)
    : root(whole), options(std::move(asked)) {
  const std::vector<NamedTensor> parameters = root.named_parameters();
  units = shard_units(root, wrapped, group, options);
  std::unordered_map<std::string, NamedShard> by_name;
  for (const auto& unit : units) {
    if (!unit->group) continue;
    for (const ShardedParameter& parameter : unit->group->parameters()) {
      by_name[parameter.name()] = {parameter.name(), parameter.shard(), parameter.place()};
    }
  }
  for (const NamedTensor& entry : parameters) {
    const auto found = by_name.find(entry.name);
    const bool is_ignored = found == by_name.end();
    shards.push_back(is_ignored ? NamedShard{entry.name, entry.tensor, {}} : found->second);
  }
}

/// Each module keeps the state alive, because it can no longer compute without it.
void FullyShard::State::wrap_modules() {
  for (const auto& unit : units) {
    wrap_calls_with_lists(*unit->module, [state = shared_from_this(), &unit = *unit](
                                             const Tensors& inputs, const Forward& forward) {
      return state->call(unit, inputs, forward);
    });
  }
}

ShardedUnit& FullyShard::State::unit_of(const Module& module) {
  for (const auto& unit : units) {
    if (unit->module == &module) return *unit;
  }
  throw internal_error("a module is to be gathered or released that is not wrapped");
}

Tensors FullyShard::State::call(ShardedUnit& unit, const Tensors& inputs, const Forward& forward) {
  return after_forward(unit, forward(before_forward(unit, inputs)));
}

// If a module is called in backward, to recompute activations, its group is already unsharded. The
// rest of its backward reshards it.
Tensors FullyShard::State::before_forward(ShardedUnit& unit, const Tensors& inputs) {
  if (unit.state == TrainingState::pre_backward) {
    if (unit.group) {
      unit.group->unshard();
      unit.group->finish_unshard();
    }
    return inputs;
  }
  unit.state = TrainingState::forward;
  Tensors passed;
  for (const at::Tensor& input : inputs) passed.push_back(cast(input, options.param_dtype));
  if (!unit.group) return passed;
  unit.group->state = TrainingState::forward;
  unit.group->unshard();
  unit.group->finish_unshard();
  return watch_inputs(passed, [state = shared_from_this(), &unit] { unit.group->post_backward(); });
}

Tensors FullyShard::State::after_forward(ShardedUnit& unit, const Tensors& outputs) {
  if (unit.state == TrainingState::pre_backward) return outputs;
  if (unit.group) {
    if (!is_in_backward()) {
      unit.group->reshard();
      unit.group->post_forward_places.push_back(post_forward_order_.size());
      post_forward_order_.push_back(&*unit.group);
    }
    unit.group->state = TrainingState::idle;
  }
  unit.state = TrainingState::idle;
  watch_outputs(outputs, [state = shared_from_this(), &unit] { state->before_backward(unit); });
  return outputs;
}

void FullyShard::State::before_backward(ShardedUnit& unit) {
  unit.state = TrainingState::pre_backward;
  if (!is_finish_queued_) {
    is_finish_queued_ = true;
    at_end_of_backward([state = shared_from_this()] { state->finish_backward(); });
  }
  if (!unit.group || unit.group->state == TrainingState::pre_backward) return;
  unit.group->state = TrainingState::pre_backward;
  unit.group->unshard();
  unit.group->finish_unshard();
  gather_ahead(*unit.group);
}

/// The group whose forward ended just before that of `group` is probably needed next.
void FullyShard::State::gather_ahead(ParameterGroup& group) {
  if (group.post_forward_places.empty()) return;
  const std::size_t place = group.post_forward_places.back();
  group.post_forward_places.pop_back();
  if (place > 0) post_forward_order_[place - 1]->unshard();
}

/// Called at the end of backward: groups whose inputs required no gradient were not notified.
void FullyShard::State::finish_backward() {
  for (const auto& unit : units) {
    unit->state = TrainingState::idle;
    if (!unit->group) continue;
    if (unit->group->state != TrainingState::post_backward) unit->group->post_backward();
    unit->group->state = TrainingState::idle;
    unit->group->drop_gathered();
    unit->group->post_forward_places.clear();
  }
  post_forward_order_.clear();
  is_finish_queued_ = false;
}

FullyShard::FullyShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
                       const FullyShardOptions& options)
    : state_(std::make_shared<State>(root, wrapped, group, options)) {
  state_->wrap_modules();
}

Tensors FullyShard::forward(const Tensors& inputs, const Forward& forward) {
  return state_->call(*state_->units.front(), inputs, forward);
}

Module& FullyShard::module() { return state_->root; }

std::vector<NamedShard> FullyShard::shards() const { return state_->shards; }

void FullyShard::set_requires_gradient_sync(bool reduces) {
  for (const auto& unit : state_->units) {
    if (unit->group) unit->group->options().reduces_gradients = reduces;
  }
}

void FullyShard::set_reshard_after_backward(bool reshards) {
  for (const auto& unit : state_->units) {
    if (unit->group) unit->group->options().reshard_after_backward = reshards;
  }
}

void FullyShard::unshard(const Module& module) {
  ShardedUnit& unit = state_->unit_of(module);
  if (!unit.group) return;
  unit.group->unshard();
  unit.group->finish_unshard();
}

void FullyShard::reshard(const Module& module) {
  ShardedUnit& unit = state_->unit_of(module);
  if (unit.group) unit.group->reshard();
}

}  // namespace lockstep
