#include "harness/train/optim/mixed_precision.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {

namespace {

void add_to_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  const at::NoGradGuard no_grad;
  at::Tensor& held = parameter.mutable_grad();
  const at::Tensor wide = gradient.to(parameter.scalar_type());
  held = held.defined() ? held + wide : wide;
}

}  // namespace

void compute_with(Module& low, Module& master) {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  const std::vector<at::Tensor> masters = master.parameters();
  const std::vector<at::Tensor> parameters = low.parameters();
  if (parameters.size() != masters.size()) {
    throw internal_error(fmt::format("a model of {} parameters cannot compute for one of {}",
                                     parameters.size(), masters.size()));
  }
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor& wide = masters[pairs.size()];
    parameter.register_hook([wide](const at::Tensor& gradient) -> at::Tensor {
      add_to_gradient(wide, gradient);
      return at::zeros_like(gradient);  // a leaf keeps its hook's result as its gradient, which is
                                        // never dropped
    });
    pairs.emplace_back(parameter, wide);
  }
  low.wrap_calls([pairs](const at::Tensor& input, const Module::Forward& forward) {
    // Without a new version, because earlier calls may have saved the tensor, with these values.
    for (const auto& [narrow, wide] : pairs) narrow.variable_data().copy_(wide);
    return forward(input);
  });
}

}  // namespace lockstep
