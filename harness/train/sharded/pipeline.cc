#include "harness/train/sharded/pipeline.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace lockstep {

/// A micro-batch between its passes.
struct Pipeline::Passed {
  at::Tensor input;   ///< a leaf, unless this is the first stage
  at::Tensor output;  ///< the loss, if this is the last one
};

Pipeline::Pipeline(Module& module, const std::vector<Module*>& own,
                   const std::vector<Module*>& copied, ProcessGroup& group)
    : ModelParts(module, own, copied), group_(group) {}

void Pipeline::run(const StageHooks& hooks, std::int64_t micro_batches) {
  std::vector<Passed> passed;
  for (std::int64_t index = 0; index < micro_batches; ++index) {
    passed.push_back(run_forward(hooks, index));
  }
  for (const Passed& one : passed) run_backward(one);
}

Pipeline::Passed Pipeline::run_forward(const StageHooks& hooks, std::int64_t index) {
  Passed passed;
  if (is_first()) {
    passed.input = hooks.input(index);
  } else {
    passed.input = at::empty(hooks.shape(index), hooks.options);
    group_.receive(passed.input, group_.rank() - 1);
    passed.input.requires_grad_();
  }
  passed.output = hooks.forward(passed.input);
  if (is_last()) {
    passed.output = hooks.loss(passed.output, index);
  } else {
    at::Tensor sent = passed.output.detach().contiguous();
    group_.send(sent, group_.rank() + 1);
  }
  return passed;
}

void Pipeline::run_backward(const Passed& passed) {
  if (is_last()) {
    passed.output.backward();
  } else {
    at::Tensor gradient = at::empty_like(passed.output, at::MemoryFormat::Contiguous);
    group_.receive(gradient, group_.rank() + 1);
    passed.output.backward(gradient);
  }
  if (is_first()) return;
  at::Tensor sent = passed.input.grad().contiguous();
  group_.send(sent, group_.rank() - 1);
}

}  // namespace lockstep
