#include "harness/train/quantised_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "harness/train/device_map.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

at::Tensor weight_of(const Module& layer) {
  const std::vector<at::Tensor> parameters = layer.parameters();
  if (parameters.empty() || parameters.front().dim() != 2) {
    throw internal_error("a layer is quantised whose first parameter is no weight [out, in]");
  }
  return parameters.front().detach().to(at::kFloat);
}

void check_part(const Module& module, const std::string& name, at::Device training_device) {
  if (dynamic_cast<const QuantisedLinear*>(&module)) {
    const at::Device device = module.own_tensors().front().tensor.device();
    if (device != training_device) {
      throw Refusal(fmt::format(
          "Lockstep's own check: the quantised weights of '{}' are on {}, and this rank "
          "trains on {}. Load them there, with the device map {{\"\": \"{}\"}}. accelerate: \"You "
          "can't train a model that has been loaded in 8-bit or 4-bit precision on a different "
          "device than the one you're training on.\"",
          name, device.str(), training_device.str(), training_device.str()));
    }
  }
  for (const Module::Part& part : module.children()) {
    check_part(*part.module, joined(name, part.name), training_device);
  }
}

}  // namespace

QuantisedLinear::QuantisedLinear(const Module& layer) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = weight_of(layer);
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

void check_quantised_weights(const Module& model, at::Device training_device) {
  check_part(model, "", training_device);
}

}  // namespace lockstep
