#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/train/nn/module.h"

namespace lockstep {

/// torch.nn.LayerNorm over the last dimension: weight and bias [features], initially ones and
/// zeros, eps 1e-5.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(std::int64_t features);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., features]

 private:
  at::Tensor weight_, bias_;
};

/// Two linear layers with an exact GELU between them: `up` [hidden, width], `down` [width, hidden].
class Mlp : public Module {
 public:
  Mlp(std::int64_t width, std::int64_t hidden, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., width]

 private:
  std::shared_ptr<Linear> up_, down_;
};

/// torch.nn.MultiheadAttention as self-attention, batch first, without mask and dropout.
/// `in_projection` is [3 * width, width], with the rows of queries, keys and values in this order,
/// and `out_projection` [width, width]; both are drawn like `Linear`. Attention is computed with
/// matrix products and a softmax, torch's SDPBackend.MATH. So the kernel does not depend on shapes,
/// dtypes or the machine.
class SelfAttention : public Module {
 public:
  /// Throws Error (internal) unless `heads` divides `width`.
  SelfAttention(std::int64_t width, std::int64_t heads, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, tokens, width]

 private:
  std::int64_t heads_;
  std::shared_ptr<Linear> in_projection_, out_projection_;
};

/// torch.nn.TransformerEncoderLayer with norm_first, GELU and no dropout: input + attention of
/// `attention_norm`, then that + MLP of `mlp_norm`.
class TransformerBlock : public Module {
 public:
  TransformerBlock(std::int64_t width, std::int64_t heads, std::int64_t hidden,
                   const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, tokens, width]

 private:
  std::shared_ptr<LayerNorm> attention_norm_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<LayerNorm> mlp_norm_;
  std::shared_ptr<Mlp> mlp_;
};

struct TransformerOptions {
  std::int64_t length = 64;  ///< of a series; a multiple of `patch`
  std::int64_t patch = 8;    ///< values of a series per token
  std::int64_t width = 32;   ///< of a token; a multiple of `heads`
  std::int64_t heads = 4;
  std::int64_t hidden = 64;  ///< of the MLPs
  std::int64_t blocks = 2;
  std::int64_t classes = 4;
};

/// A classifier of time series. A series is cut into patches; a linear layer turns each into a
/// token, to which a learned position is added. Then follow blocks, a norm, the mean over the
/// tokens and a linear layer. Parameters, in this order, float32, on the CPU: `position` [tokens,
/// width] (normal, with standard deviation 0.02), `embedding`, `blocks.0` and so on, `norm`,
/// `head`. They are drawn from `generator` in the same order.
///
/// Source: Nie et al., "A time series is worth 64 words", 2023, for the patches.
class TimeSeriesTransformer : public Module {
 public:
  /// Throws Error (internal) for inconsistent options.
  TimeSeriesTransformer(const TransformerOptions& options, const at::Generator& generator);

  /// From [batch, length] to logits [batch, classes].
  at::Tensor forward(const at::Tensor& input) override;

 private:
  std::int64_t patch_;
  at::Tensor position_;
  std::shared_ptr<Linear> embedding_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace lockstep
