#include "harness/train/nn/mlp_above_embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/randn.h>

namespace lockstep {

MlpAboveEmbedding::MlpAboveEmbedding(const at::Generator& generator, bool has_head)
    : embedding_(register_parameter(
          "embedding", at::randn({kVocabulary, kWidth}, generator, at::TensorOptions()))),
      mlp_(register_module("mlp", std::make_shared<SwiGlu>(kWidth, kHidden, generator))) {
  embedding_.requires_grad_(false);
  if (!has_head) return;
  head_ = register_module("head", std::make_shared<Linear>(kWidth, kWidth, generator));
}

at::Tensor MlpAboveEmbedding::forward(const at::Tensor& tokens) {
  return run(tokens, [](Module& mlp, const at::Tensor& hidden) { return mlp.forward(hidden); });
}

at::Tensor MlpAboveEmbedding::run(
    const at::Tensor& tokens,
    const std::function<at::Tensor(Module& mlp, const at::Tensor& hidden)>& run_mlp) {
  const at::Tensor output = run_mlp(*mlp_, at::embedding(embedding_, tokens));
  return head_ ? head_->forward(output) : output;
}

}  // namespace lockstep
