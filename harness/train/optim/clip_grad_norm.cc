#include "harness/train/optim/clip_grad_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace lockstep {

namespace {

std::vector<at::Tensor> gradients_of_all(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

}  // namespace

at::Tensor total_grad_norm(const std::vector<at::Tensor>& parameters) {
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients_of_all(parameters)) {
    norms.push_back(at::linalg_vector_norm(gradient));
  }
  return norms.empty() ? at::Tensor() : at::linalg_vector_norm(at::stack(norms));
}

void clip_grads_with_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          const at::Tensor& norm) {
  const c10::NoGradGuard no_grad;
  // Python divides a number by a tensor with the reciprocal; the quotient has other bits.
  // Multiplying by a coefficient of 1 changes nothing, and testing for it would synchronise the
  // device.
  const at::Tensor coefficient =
      at::clamp((norm + 1e-6).reciprocal() * max_norm, std::nullopt, 1.0);
  for (const at::Tensor& gradient : gradients_of_all(parameters)) gradient.mul_(coefficient);
}

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm) {
  const at::Tensor norm = total_grad_norm(parameters);
  if (!norm.defined()) return 0;
  clip_grads_with_norm(parameters, max_norm, norm);
  return norm.item<double>();
}

at::Tensor norm_over_ranks(ProcessGroup& group, const at::Tensor& mine, CallSite site) {
  at::Tensor squares = mine.square();
  group.all_reduce(squares, ReduceOp::sum, site);
  return squares.sqrt();
}

}  // namespace lockstep
