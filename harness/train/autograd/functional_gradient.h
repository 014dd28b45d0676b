#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep {

/// Returns a 0-dim tensor that is differentiable in `arguments`.
using LossOf = std::function<at::Tensor(const std::vector<at::Tensor>& arguments)>;

struct GradAndValue {
  std::vector<at::Tensor> gradients;  ///< one per argument, on its device
  at::Tensor value;                   ///< without a graph
};

/// The value of `loss_of` at `arguments` and its gradients, from a separate graph with the
/// arguments as leaves. Does not touch other graphs of the arguments.
GradAndValue grad_and_value(const LossOf& loss_of, const std::vector<at::Tensor>& arguments);

/// torch.func.grad_and_value: the same with functorch, which wraps the arguments. A wrapper has no
/// storage, but the engine needs the storage of a gradient that moves between devices: "Cannot
/// access storage of TensorWrapper".
GradAndValue functional_grad_and_value(const LossOf& loss_of,
                                       const std::vector<at::Tensor>& arguments);

}  // namespace lockstep
