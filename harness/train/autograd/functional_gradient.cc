#include "harness/train/autograd/functional_gradient.h"

#include <ATen/core/grad_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>

namespace lockstep {

namespace {

/// One level of torch.func.grad: tensors wrapped in it belong to its own autograd.
class GradLevel {
 public:
  GradLevel()
      : level_(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Grad, {}, {},
                                                      /*prev_grad_mode=*/true)) {}
  ~GradLevel() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  GradLevel(const GradLevel&) = delete;
  GradLevel& operator=(const GradLevel&) = delete;

  at::Tensor wrap(const at::Tensor& tensor) const {
    return at::functorch::makeTensorWrapper(tensor, level_);
  }
  at::Tensor unwrap(const at::Tensor& tensor) const {
    const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
    return wrapper && wrapper->level() == level_ ? wrapper->value() : tensor;
  }

 private:
  std::int64_t level_;
};

std::vector<at::Tensor> detach_all(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> detached;
  for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
  return detached;
}

GradAndValue wrapped_grad_and_value(const LossOf& loss_of,
                                    const std::vector<at::Tensor>& arguments) {
  const at::AutoGradMode with_grad(true);
  const GradLevel level;
  std::vector<at::Tensor> wrapped;
  for (const at::Tensor& argument : arguments) {
    wrapped.push_back(level.wrap(argument).requires_grad_(true));
  }
  const at::Tensor loss = loss_of(wrapped);
  GradAndValue results{{}, level.unwrap(loss)};
  if (wrapped.empty()) return results;
  results.gradients = torch::autograd::grad({loss}, wrapped, {}, /*retain_graph=*/true,
                                            /*create_graph=*/true);
  for (at::Tensor& gradient : results.gradients) gradient = level.unwrap(gradient);
  return results;
}

}  // namespace

GradAndValue grad_and_value(const LossOf& loss_of, const std::vector<at::Tensor>& arguments) {
  const at::AutoGradMode with_grad(true);
  const std::vector<at::Tensor> leaves = detach_all(arguments);
  for (const at::Tensor& leaf : leaves) leaf.requires_grad_(true);
  const at::Tensor loss = loss_of(leaves);
  GradAndValue results{{}, loss.detach()};
  if (!leaves.empty()) results.gradients = torch::autograd::grad({loss}, leaves);
  return results;
}

GradAndValue functional_grad_and_value(const LossOf& loss_of,
                                       const std::vector<at::Tensor>& arguments) {
  // Inside the level a detached tensor is a wrapper of that level.
  const std::vector<at::Tensor> detached = detach_all(arguments);
  GradAndValue results = wrapped_grad_and_value(loss_of, detached);
  return {detach_all(results.gradients), results.value.detach()};
}

}  // namespace lockstep
