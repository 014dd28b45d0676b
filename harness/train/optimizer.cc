#include "harness/train/optimizer.h"

#include <c10/core/GradMode.h>

#include <utility>

namespace lockstep {

Sgd::Sgd(std::vector<at::Tensor> parameters, double learning_rate)
    : parameters_(std::move(parameters)), learning_rate_(learning_rate) {}

void Sgd::step() {
  const c10::NoGradGuard no_grad;
  for (at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) parameter.add_(parameter.grad(), -learning_rate_);
  }
}

}  // namespace lockstep
