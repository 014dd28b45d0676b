#include "harness/train/nn/mlp_between_layers.h"

#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>

namespace lockstep {

MlpBetweenLayers::MlpBetweenLayers(const at::Generator& generator,
                                   const MlpBetweenLayersOptions& options) {
  const auto layer = [&](const char* name) {
    return register_module(name, std::make_shared<Linear>(options.width, options.width, generator));
  };
  if (options.has_below) below_ = layer("below");
  mlp_ = register_module("mlp", std::make_shared<SwiGlu>(options.width, options.hidden, generator,
                                                         options.activation));
  if (options.has_above) above_ = layer("above");
  if (options.frozen == "all") mlp_->freeze();
  if (options.frozen == "gate") mlp_->parameters().front().requires_grad_(false);
  if (!options.has_whole_weights) return;
  const at::NoGradGuard no_grad;
  for (at::Tensor& weight : parameters()) weight.random_(-1, 2, generator);
}

at::Tensor MlpBetweenLayers::forward(const at::Tensor& input) {
  return run(input, [this](const at::Tensor& hidden) { return mlp_->forward(hidden); });
}

at::Tensor MlpBetweenLayers::run(const at::Tensor& input, const Forward& run_mlp) {
  const at::Tensor output =
      run_mlp(below_ ? below_->forward(input) : input.detach().requires_grad_(true));
  return above_ ? above_->forward(output) : output;
}

}  // namespace lockstep
