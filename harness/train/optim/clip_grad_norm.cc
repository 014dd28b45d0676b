#include "harness/train/optim/clip_grad_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace lockstep {

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    gradients.push_back(parameter.grad());
    norms.push_back(at::linalg_vector_norm(parameter.grad()));
  }
  if (gradients.empty()) return 0;
  const at::Tensor norm = at::linalg_vector_norm(at::stack(norms));
  // Python divides a number by a tensor with the reciprocal; the quotient has other bits.
  // Multiplying by a coefficient of 1 changes nothing, and testing for it would synchronise the
  // device.
  const at::Tensor coefficient =
      at::clamp((norm + 1e-6).reciprocal() * max_norm, std::nullopt, 1.0);
  for (at::Tensor& gradient : gradients) gradient.mul_(coefficient);
  return norm.item<double>();
}

}  // namespace lockstep
