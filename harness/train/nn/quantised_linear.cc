#include "harness/train/nn/quantised_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <string>
#include <vector>

#include "reports/base/error.h"

namespace lockstep {

namespace {

at::Tensor float_weight_of(const Module& layer) {
  const std::vector<at::Tensor> parameters = layer.parameters();
  if (parameters.empty() || parameters.front().dim() != 2) {
    throw internal_error("a layer is quantised whose first parameter is no weight [out, in]");
  }
  return parameters.front().detach().to(at::kFloat);
}

}  // namespace

QuantisedLinear::QuantisedLinear(const Module& layer) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = float_weight_of(layer);
  scale_ = weight.abs().amax(1, /*keepdim=*/true) / 127;
  const at::Tensor divisor = at::where(scale_ == 0, at::ones_like(scale_), scale_);
  weight_ = register_buffer("weight", (weight / divisor).round().to(at::kChar));
  scale_ = register_buffer("scale", scale_);
  const std::vector<at::Tensor> parameters = layer.parameters();
  if (parameters.size() > 1) bias_ = register_buffer("bias", parameters[1].detach().clone());
}

at::Tensor QuantisedLinear::dequantised() const { return weight_.to(at::kFloat) * scale_; }

at::Tensor QuantisedLinear::forward(const at::Tensor& input) {
  const at::ScalarType dtype = input.scalar_type();
  const at::Tensor bias = bias_.defined() ? bias_.to(dtype) : bias_;
  return at::linear(input, dequantised().to(dtype), bias);
}

}  // namespace lockstep
