#include "harness/train/sharded/zero.h"

#include <set>
#include <utility>

#include "harness/train/autograd/backward_watch.h"
#include "harness/train/sharded/parameter_attributes.h"
#include "harness/train/sharded/sharded_units.h"
#include "harness/train/sharded/zero_engine.h"
#include "harness/train/sharded/zero_flat_group.h"
#include "harness/train/sharded/zero_partitioned_model.h"
#include "reports/base/error.h"

namespace lockstep {

using Tensors = std::vector<at::Tensor>;

bool is_gradient_ready(const at::Tensor& parameter) {
  return attribute(parameter, zero_attribute::kGradientIsReady).value_or(1) != 0;
}

struct Zero::State : std::enable_shared_from_this<State> {
  State(Module& whole, ProcessGroup& ranks, const ZeroOptions& options);

  void wrap_modules();
  void wrap_calls(Module& module);
  Tensors call_root(const Tensors& inputs, const Forward& forward);
  Tensors call(Module& module, const Tensors& inputs, const Forward& forward);
  void before_backward();

  Module& root;
  std::shared_ptr<ZeroPartitionedModel> partitioned;  ///< stage 3
  std::shared_ptr<ZeroEngine> engine;
  std::set<Module*> wrapped;
  bool is_boundary = true;
  bool is_finish_queued = false;
};

Zero::State::State(Module& whole, ProcessGroup& ranks, const ZeroOptions& options) : root(whole) {
  if (options.stage < 1 || options.stage > 3) throw internal_error("ZeRO has stages 1, 2 and 3");
  if (options.stage == 3) {
    partitioned = std::make_shared<ZeroPartitionedModel>(root, ranks, options);
    partitioned->hook_parameters();
    engine = partitioned;
    return;
  }
  const auto flat = std::make_shared<ZeroFlatGroup>(root, ranks, options);
  flat->hook_parameters();
  engine = flat;
}

void Zero::State::wrap_modules() {
  if (partitioned) wrap_calls(root);
  wrap_calls_with_lists(
      root, [state = shared_from_this()](const Tensors& inputs, const Forward& forward) {
        return state->call_root(inputs, forward);
      });
}

void Zero::State::wrap_calls(Module& module) {
  if (!wrapped.insert(&module).second) return;
  for (const Module::Part& part : module.children()) wrap_calls(*part.module);
  if (module.own_parameters().empty()) return;
  wrap_calls_with_lists(
      module, [state = shared_from_this(), &module](const Tensors& inputs, const Forward& forward) {
        return state->call(module, inputs, forward);
      });
}

Tensors Zero::State::call_root(const Tensors& inputs, const Forward& forward) {
  engine->begin_forward();
  const Tensors outputs = forward(inputs);
  watch_outputs(outputs, [state = shared_from_this()] { state->before_backward(); });
  return outputs;
}

Tensors Zero::State::call(Module& module, const Tensors& inputs, const Forward& forward) {
  partitioned->fetch(module);
  const auto release = [state = partitioned, &module] { state->release(module); };
  const Tensors outputs = forward(watch_inputs(inputs, release));
  partitioned->release(module);
  watch_outputs(outputs, [state = partitioned, &module] { state->fetch(module); });
  return outputs;
}

void Zero::State::before_backward() {
  if (std::exchange(is_finish_queued, true)) return;
  at_end_of_backward([state = shared_from_this()] {
    state->is_finish_queued = false;
    state->engine->finish_backward(state->is_boundary);
  });
}

Zero::Zero(Module& root, ProcessGroup& group, const ZeroOptions& options)
    : state_(std::make_shared<State>(root, group, options)) {
  state_->wrap_modules();
}

Tensors Zero::forward(const Tensors& inputs, const Forward& forward) {
  return state_->call_root(inputs, [&](const Tensors& passed) {
    if (!state_->partitioned) return forward(passed);
    return state_->call(state_->root, passed, forward);
  });
}

Module& Zero::module() { return state_->root; }

std::vector<NamedShard> Zero::shards() const { return state_->engine->shards(); }

void Zero::zero_grad() { state_->engine->zero_grad(); }

void Zero::set_requires_gradient_sync(bool reduces) { state_->is_boundary = reduces; }

void Zero::finish_step() { state_->engine->finish_step(); }

bool Zero::keeps_parameters_whole() const { return state_->engine->keeps_parameters_whole(); }

}  // namespace lockstep
