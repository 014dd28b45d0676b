#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// A 0-dim tensor that is differentiable in `arguments`.
using LossOf = std::function<at::Tensor(const std::vector<at::Tensor>& arguments)>;

struct GradAndValue {
  std::vector<at::Tensor> gradients;  ///< one per argument, on its device
  at::Tensor value;                   ///< without a graph
};

/// The gradients of `loss_of` at `arguments`, by a graph of its own whose leaves they are, and its
/// value. Looks at no graph that they belong to.
GradAndValue grad_and_value(const LossOf& loss_of, const std::vector<at::Tensor>& arguments);

/// torch.func.grad_and_value: the same by functorch, which wraps the arguments. A wrapper has no
/// storage, and the engine asks for that of a gradient that goes from one device to another:
/// "Cannot access storage of TensorWrapper".
GradAndValue functional_grad_and_value(const LossOf& loss_of,
                                       const std::vector<at::Tensor>& arguments);

}  // namespace lockstep
