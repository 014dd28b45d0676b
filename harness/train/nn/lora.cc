#include "harness/train/nn/lora.h"

#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "harness/train/nn/quantised_linear.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

at::Tensor weight_of(const Module& base) {
  std::vector<at::Tensor> tensors = base.parameters();
  if (tensors.empty()) tensors = base.buffers();
  if (tensors.empty() || tensors.front().dim() != 2) {
    throw internal_error("LoRA adapts a layer whose first parameter is a weight [out, in]");
  }
  return tensors.front();
}

std::shared_ptr<Module> base_of(std::shared_ptr<Module> layer, const LoraOptions& options) {
  if (!options.quantises_base) return layer;
  return std::make_shared<QuantisedLinear>(*layer);
}

std::shared_ptr<Linear> adapter(std::int64_t in, std::int64_t out, const at::Generator& generator) {
  if (in < 1 || out < 1) {
    throw internal_error(fmt::format("LoRA has no adapter from {} to {} values", in, out));
  }
  return std::make_shared<Linear>(in, out, generator, /*has_bias=*/false);
}

}  // namespace

LoraLinear::LoraLinear(std::shared_ptr<Module> base, const LoraOptions& options,
                       const at::Generator& generator)
    : scale_(options.alpha / static_cast<double>(options.rank)),
      base_(register_module("base", base_of(std::move(base), options))) {
  const at::Tensor weight = weight_of(*base_);
  base_->freeze();
  lora_a_ = register_module("lora_a", adapter(weight.size(1), options.rank, generator));
  lora_b_ = register_module("lora_b", adapter(options.rank, weight.size(0), generator));
  const at::ScalarType dtype = weight.is_floating_point() ? weight.scalar_type() : at::kFloat;
  lora_a_->to(dtype);
  lora_b_->to(dtype);
  if (options.draws_b) return;
  const at::NoGradGuard no_grad;
  lora_b_->parameters().front().zero_();
}

at::Tensor LoraLinear::forward(const at::Tensor& input) {
  // First the layer, because backward adds the gradients of the input in this order.
  const at::Tensor output = (*base_)(input);
  return output + (*lora_b_)((*lora_a_)(input)) * scale_;
}

}  // namespace lockstep
