#include "harness/train/nn/mlp_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>

#include <string>

namespace lockstep {

MlpLayer::MlpLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator)
    : norm_(register_module("norm", std::make_shared<LayerNorm>(width))),
      mlp_(register_module("mlp", std::make_shared<SwiGlu>(width, hidden, generator))) {}

at::Tensor MlpLayer::forward(const at::Tensor& input) { return input + (*mlp_)((*norm_)(input)); }

MlpLayers::MlpLayers(const MlpLayersOptions& options, const at::Generator& generator)
    : embedding_(register_module(
          "embedding", std::make_shared<Linear>(options.inputs, options.width, generator))) {
  for (int i = 0; i < options.layers; ++i) {
    layers_.push_back(
        register_module("layers." + std::to_string(i),
                        std::make_shared<MlpLayer>(options.width, options.hidden, generator)));
  }
  head_ = register_module("head", std::make_shared<Linear>(options.width, 1, generator));
}

at::Tensor MlpLayers::forward(const at::Tensor& input) {
  at::Tensor hidden = (*embedding_)(input);
  for (const auto& layer : layers_) hidden = (*layer)(hidden);
  return (*head_)(hidden);
}

std::vector<Module*> MlpLayers::at_level(std::string_view level) const {
  std::vector<Module*> modules;
  for (const auto& layer : layers_) {
    if (level == "mlp") modules.push_back(&layer->mlp());
    if (level == "layer") modules.push_back(layer.get());
  }
  return modules;
}

}  // namespace lockstep
