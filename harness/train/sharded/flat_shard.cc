#include "harness/train/sharded/flat_shard.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "harness/train/sharded/flat_parameter.h"
#include "harness/train/sharded/parameter_group.h"
#include "harness/train/sharded/sharded_units.h"

namespace lockstep {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Callback for when the gradient of a flat parameter is complete; removed with this object.
class PostBackwardHook {
 public:
  PostBackwardHook(const at::Tensor& leaf, const std::function<void()>& run)
      : accumulator_(torch::autograd::impl::grad_accumulator(leaf)),
        key_(accumulator_->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [run](const Tensors& outputs, const Tensors& /*inputs*/) {
              run();
              return outputs;
            }))) {}
  ~PostBackwardHook() { accumulator_->del_post_hook(key_); }
  PostBackwardHook(const PostBackwardHook&) = delete;
  PostBackwardHook& operator=(const PostBackwardHook&) = delete;

 private:
  decltype(torch::autograd::Edge::function) accumulator_;
  std::uintptr_t key_;
};

/// The same if no gradient arrives: runs when those of all inputs have.
class InputHook {
 public:
  InputHook(const Tensors& inputs, const std::function<void()>& run)
      : missing_(std::make_shared<std::size_t>(0)) {
    for (const at::Tensor& input : inputs) {
      if (!input.requires_grad()) continue;
      ++*missing_;
      input.register_hook([missing = missing_, run](const at::Tensor& /*gradient*/) {
        if (*missing > 0 && --*missing == 0) run();
      });
    }
  }
  ~InputHook() { *missing_ = 0; }
  InputHook(const InputHook&) = delete;
  InputHook& operator=(const InputHook&) = delete;

 private:
  std::shared_ptr<std::size_t> missing_;  // 0: nothing is awaited
};

/// A module with a flat parameter, or the root, which may have none.
struct FlatUnit {
  Module* module = nullptr;
  bool is_root = false;
  bool is_training = false;  // from the begin to the end of its forward, or in backward
  std::optional<FlatParameter> flat = {};

  // Of the flat parameter:
  TrainingState state = TrainingState::idle;
  bool needs_unshard_in_backward = false;
  bool is_gathered_ahead = false;
  bool ran_before_backward = false;
  bool ran_after_backward = false;
  std::optional<std::size_t> post_forward_place = {};
  std::optional<PostBackwardHook> gradient_hook = {};
  std::optional<InputHook> input_hook = {};
};

/// Whether `part` is `module` or a part of it.
bool has_part(const Module& module, const Module& part) {
  const std::vector<Module::Part> children = module.children();
  return &module == &part || std::any_of(children.begin(), children.end(), [&](const auto& child) {
    return has_part(*child.module, part);
  });
}

}  // namespace

struct FlatShard::State : std::enable_shared_from_this<State> {
  State(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group, FlatStrategy asked);

  void wrap_modules();
  Tensors call(FlatUnit& unit, const Tensors& inputs, const Forward& forward);

  Module& root;
  FlatStrategy strategy;
  bool reduces_gradients = true;
  std::vector<std::unique_ptr<FlatUnit>> units;  // the root first
  std::vector<NamedShard> shards;

 private:
  void before_forward(FlatUnit& unit, const Tensors& inputs);
  void after_forward(FlatUnit& unit, const Tensors& outputs);
  void hook_gradient(FlatUnit& unit, const Tensors& inputs);
  void hook_outputs(FlatUnit& unit, const Tensors& outputs);
  void before_backward(FlatUnit& unit);
  void gather_ahead(const FlatUnit& unit);
  void after_backward(FlatUnit& unit);
  void reshard_in_backward(FlatUnit& unit);
  void finish_backward();
  void finish_gradients(FlatUnit& unit) const;

  std::vector<FlatUnit*> post_forward_order_;
  bool is_finish_queued_ = false;
};

FlatShard::State::State(Module& whole, const std::vector<Module*>& wrapped, ProcessGroup& group,
                        FlatStrategy asked)
    : root(whole), strategy(group.size() == 1 ? FlatStrategy::no_shard : asked) {
  const std::vector<NamedTensor> parameters = root.named_parameters();
  std::unordered_map<std::string, NamedShard> by_name;
  for (FoundUnit& found : find_units(root, wrapped, ParameterOrder::own_first)) {
    units.push_back(std::make_unique<FlatUnit>());
    FlatUnit& unit = *units.back();
    unit.module = found.module;
    unit.is_root = found.module == &root;
    if (found.parameters.empty()) continue;
    unit.flat.emplace(found.name, std::move(found.parameters), group,
                      strategy == FlatStrategy::no_shard);
    for (const NamedShard& piece : unit.flat->pieces()) by_name[piece.name] = piece;
  }
  for (const NamedTensor& entry : parameters) shards.push_back(by_name.at(entry.name));
}

/// Each module keeps the state alive, because it can no longer compute without it.
void FlatShard::State::wrap_modules() {
  for (const auto& unit : units) {
    wrap_calls_with_lists(*unit->module, [state = shared_from_this(), &unit = *unit](
                                             const Tensors& inputs, const Forward& forward) {
      return state->call(unit, inputs, forward);
    });
  }
}

Tensors FlatShard::State::call(FlatUnit& unit, const Tensors& inputs, const Forward& forward) {
  before_forward(unit, inputs);
  Tensors outputs = forward(inputs);
  after_forward(unit, outputs);
  return outputs;
}

// If a module is called in its own backward, to recompute activations, its parameters are already
// gathered and the hooks of the earlier forward exist.
void FlatShard::State::before_forward(FlatUnit& unit, const Tensors& inputs) {
  if (unit.state == TrainingState::pre_backward) return;
  unit.is_training = true;
  if (!unit.flat) return;
  unit.state = TrainingState::forward;
  if (!unit.is_gathered_ahead) {
    unit.flat->unshard();
    unit.flat->make_views();
  }
  hook_gradient(unit, inputs);
}

/// In the first of several forwards, and until a backward has ended.
void FlatShard::State::hook_gradient(FlatUnit& unit, const Tensors& inputs) {
  if (!at::GradMode::is_enabled() || unit.gradient_hook || unit.input_hook) return;
  if (unit.flat->requires_grad()) {
    unit.gradient_hook.emplace(unit.flat->leaf(), [state = weak_from_this(), &unit] {
      if (const auto alive = state.lock()) alive->after_backward(unit);
    });
    return;
  }
  unit.input_hook.emplace(inputs, [state = weak_from_this(), &unit] {
    const auto alive = state.lock();
    if (!alive) return;
    unit.is_training = true;
    unit.state = TrainingState::post_backward;
    alive->reshard_in_backward(unit);
  });
}

void FlatShard::State::after_forward(FlatUnit& unit, const Tensors& outputs) {
  if (unit.state == TrainingState::pre_backward) return;
  if (unit.flat) {
    // The original treats a position of 0 as none.
    if (unit.post_forward_place.value_or(0) == 0) {
      unit.post_forward_place = post_forward_order_.size();
    }
    post_forward_order_.push_back(&unit);
    unit.flat->reshard(!unit.is_root && strategy == FlatStrategy::full_shard);
    unit.is_gathered_ahead = false;
  }
  hook_outputs(unit, outputs);
  unit.is_training = false;
  unit.state = TrainingState::idle;
}

void FlatShard::State::hook_outputs(FlatUnit& unit, const Tensors& outputs) {
  if (!at::GradMode::is_enabled()) return;
  if (unit.is_root) is_finish_queued_ = false;
  unit.needs_unshard_in_backward = false;
  unit.ran_before_backward = false;
  for (const at::Tensor& output : outputs) {
    if (!output.requires_grad()) continue;
    output.register_hook([state = shared_from_this(), &unit](const at::Tensor& /*gradient*/) {
      state->before_backward(unit);
    });
    unit.needs_unshard_in_backward = true;
  }
}

void FlatShard::State::before_backward(FlatUnit& unit) {
  if (unit.flat && unit.ran_before_backward) return;
  if (unit.is_root && !is_finish_queued_) {
    TORCH_CHECK(!unit.is_training, "Lockstep's FlatShard: backward of the root in its forward");
    is_finish_queued_ = true;
    torch::autograd::Engine::get_default_engine().queue_callback(
        [state = shared_from_this()] { state->finish_backward(); });
  } else if (unit.flat) {
    TORCH_CHECK(!unit.is_training, "Lockstep's FlatShard: backward of a module in its forward");
  }
  unit.is_training = true;
  if (!unit.flat) return;
  unit.state = TrainingState::pre_backward;
  if (unit.needs_unshard_in_backward && !unit.is_gathered_ahead) unit.flat->unshard();
  unit.needs_unshard_in_backward = false;
  gather_ahead(unit);
  unit.flat->set_gradients_aside();
  unit.ran_before_backward = true;
}

/// The unit whose forward ended just before is probably needed next.
void FlatShard::State::gather_ahead(const FlatUnit& unit) {
  if (unit.post_forward_place.value_or(0) == 0) return;
  FlatUnit& next = *post_forward_order_[*unit.post_forward_place - 1];
  if (!next.needs_unshard_in_backward || next.is_gathered_ahead) return;
  next.flat->unshard();
  next.is_gathered_ahead = true;
}

void FlatShard::State::after_backward(FlatUnit& unit) {
  unit.ran_after_backward = true;
  TORCH_CHECK(unit.is_training && (unit.state == TrainingState::pre_backward ||
                                   unit.state == TrainingState::post_backward),
              "Lockstep's FlatShard: a gradient of a module that backward has not come to");
  unit.state = TrainingState::post_backward;
  if (!unit.flat->has_gradient()) return;
  reshard_in_backward(unit);
  if (reduces_gradients) unit.flat->reduce_gradient();
}

void FlatShard::State::reshard_in_backward(FlatUnit& unit) {
  unit.flat->reshard(strategy == FlatStrategy::full_shard ||
                     (strategy == FlatStrategy::shard_grad_op && reduces_gradients));
  unit.is_gathered_ahead = false;
}

/// Called at the end of backward. Some units were not notified, and notified ones read gradients
/// from now on.
void FlatShard::State::finish_backward() {
  post_forward_order_.clear();
  for (const auto& unit : units) {
    if (unit->flat) {
      if (unit->flat->is_in_use()) reshard_in_backward(*unit);
      finish_gradients(*unit);
    }
    unit->is_training = false;
    unit->ran_before_backward = false;
    unit->needs_unshard_in_backward = false;
    unit->post_forward_place.reset();
    unit->state = TrainingState::idle;
    unit->is_gathered_ahead = false;
  }
  is_finish_queued_ = false;
}

void FlatShard::State::finish_gradients(FlatUnit& unit) const {
  unit.gradient_hook.reset();
  unit.input_hook.reset();
  if (!unit.flat->requires_grad()) return;
  unit.flat->show_whole_gradients();
  if (!reduces_gradients) return;
  unit.flat->hand_over_gradients(unit.ran_after_backward);
  unit.ran_after_backward = false;
}

FlatShard::FlatShard(Module& root, const std::vector<Module*>& wrapped, ProcessGroup& group,
                     FlatStrategy strategy)
    : state_(std::make_shared<State>(root, wrapped, group, strategy)) {
  state_->wrap_modules();
}

Tensors FlatShard::forward(const Tensors& inputs, const Forward& forward) {
  return state_->call(*state_->units.front(), inputs, forward);
}

Module& FlatShard::module() { return state_->root; }

std::vector<NamedShard> FlatShard::shards() const { return state_->shards; }

std::vector<at::Tensor> FlatShard::listed_parameters(const Module& module) const {
  std::vector<at::Tensor> listed;
  for (const auto& unit : state_->units) {
    if (unit->flat && has_part(module, *unit->module)) listed.push_back(unit->flat->leaf());
  }
  return listed;
}

void FlatShard::zero_grad() {
  for (const auto& unit : state_->units) {
    if (unit->flat) unit->flat->zero_grad();
  }
}

void FlatShard::set_requires_gradient_sync(bool reduces) { state_->reduces_gradients = reduces; }

bool FlatShard::keeps_parameters_whole() const {
  return state_->strategy == FlatStrategy::no_shard;
}

bool FlatShard::keeps_gradients_whole() const { return keeps_parameters_whole(); }

}  // namespace lockstep
