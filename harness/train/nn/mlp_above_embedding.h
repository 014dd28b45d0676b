#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

/// A SwiGLU `mlp` above a frozen `embedding`, as adapters leave it: its input requires no gradient.
/// Above it, a linear layer `head` if the model has one.
class MlpAboveEmbedding : public Module {
 public:
  static constexpr std::int64_t kVocabulary = 16;
  static constexpr std::int64_t kWidth = 8;
  static constexpr std::int64_t kHidden = 16;

  MlpAboveEmbedding(const at::Generator& generator, bool has_head);
  at::Tensor forward(const at::Tensor& tokens) override;  ///< [...] to [..., width]

  /// The same with `run_mlp` in the place of the MLP.
  at::Tensor run(const at::Tensor& tokens,
                 const std::function<at::Tensor(Module& mlp, const at::Tensor& hidden)>& run_mlp);

 private:
  at::Tensor embedding_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Linear> head_;  ///< null: none
};

}  // namespace lockstep
