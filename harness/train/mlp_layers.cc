#include "harness/train/mlp_layers.h"

#include <ATen/TensorOperators.h>

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kHidden = 10;

}  // namespace

MlpLayer::MlpLayer(std::int64_t width, std::int64_t hidden, const at::Generator& generator)
    : below(register_module("below", std::make_shared<Linear>(width, width, generator))),
      mlp(register_module("mlp", std::make_shared<SwiGlu>(width, hidden, generator))) {}

at::Tensor MlpLayer::forward(const at::Tensor& input) { return input + (*mlp)((*below)(input)); }

MlpLayers::MlpLayers(const at::Generator& generator)
    : embedding(
          register_module("embedding", std::make_shared<Linear>(kInputs, kWidth, generator))) {
  for (const char* name : {"layers.0", "layers.1"}) {
    layers.push_back(register_module(name, std::make_shared<MlpLayer>(kWidth, kHidden, generator)));
  }
  head = register_module("head", std::make_shared<Linear>(kWidth, 1, generator));
}

at::Tensor MlpLayers::forward(const at::Tensor& input) {
  at::Tensor hidden = (*embedding)(input);
  for (const auto& layer : layers) hidden = (*layer)(hidden);
  return (*head)(hidden);
}

}  // namespace lockstep
