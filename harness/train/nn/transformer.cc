#include "harness/train/nn/transformer.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr double kPositionDeviation = 0.02;

/// `whole` / `part`.
std::int64_t parts(std::string_view what, std::int64_t whole, std::int64_t part) {
  if (part < 1 || whole < 1 || whole % part != 0) {
    throw internal_error(
        fmt::format("a transformer cannot cut its {} of {} by {}", what, whole, part));
  }
  return whole / part;
}

at::Tensor initial_position(const TransformerOptions& options, const at::Generator& generator) {
  const std::int64_t tokens = parts("length", options.length, options.patch);
  return at::randn({tokens, options.width}, generator, at::TensorOptions()) * kPositionDeviation;
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t features)
    : weight_(register_parameter("weight", at::ones({features}))),
      bias_(register_parameter("bias", at::zeros({features}))) {}

at::Tensor LayerNorm::forward(const at::Tensor& input) {
  return at::layer_norm(input, weight_.sizes(), weight_, bias_, /*eps=*/1e-5);
}

Mlp::Mlp(std::int64_t width, std::int64_t hidden, const at::Generator& generator)
    : up_(register_module("up", std::make_shared<Linear>(width, hidden, generator))),
      down_(register_module("down", std::make_shared<Linear>(hidden, width, generator))) {}

at::Tensor Mlp::forward(const at::Tensor& input) { return (*down_)(at::gelu((*up_)(input))); }

SelfAttention::SelfAttention(std::int64_t width, std::int64_t heads, const at::Generator& generator)
    : heads_(heads),
      in_projection_(
          register_module("in_projection", std::make_shared<Linear>(width, 3 * width, generator))),
      out_projection_(
          register_module("out_projection", std::make_shared<Linear>(width, width, generator))) {
  parts("width", width, heads);
}

at::Tensor SelfAttention::forward(const at::Tensor& input) {
  // [3, batch, heads, tokens, width of a head]
  const at::Tensor projected =
      (*in_projection_)(input).unflatten(-1, {3, heads_, -1}).permute({2, 0, 3, 1, 4});
  const at::Tensor attended =
      std::get<0>(at::_scaled_dot_product_attention_math(projected[0], projected[1], projected[2]));
  return (*out_projection_)(attended.transpose(1, 2).flatten(-2));
}

TransformerBlock::TransformerBlock(std::int64_t width, std::int64_t heads, std::int64_t hidden,
                                   const at::Generator& generator)
    : attention_norm_(register_module("attention_norm", std::make_shared<LayerNorm>(width))),
      attention_(
          register_module("attention", std::make_shared<SelfAttention>(width, heads, generator))),
      mlp_norm_(register_module("mlp_norm", std::make_shared<LayerNorm>(width))),
      mlp_(register_module("mlp", std::make_shared<Mlp>(width, hidden, generator))) {}

at::Tensor TransformerBlock::forward(const at::Tensor& input) {
  const at::Tensor attended = input + (*attention_)((*attention_norm_)(input));
  return attended + (*mlp_)((*mlp_norm_)(attended));
}

TimeSeriesTransformer::TimeSeriesTransformer(const TransformerOptions& options,
                                             const at::Generator& generator)
    : patch_(options.patch),
      position_(register_parameter("position", initial_position(options, generator))),
      embedding_(register_module(
          "embedding", std::make_shared<Linear>(options.patch, options.width, generator))) {
  for (std::int64_t i = 0; i < options.blocks; ++i) {
    blocks_.push_back(register_module(
        fmt::format("blocks.{}", i), std::make_shared<TransformerBlock>(
                                         options.width, options.heads, options.hidden, generator)));
  }
  norm_ = register_module("norm", std::make_shared<LayerNorm>(options.width));
  head_ =
      register_module("head", std::make_shared<Linear>(options.width, options.classes, generator));
}

at::Tensor TimeSeriesTransformer::forward(const at::Tensor& input) {
  at::Tensor tokens = (*embedding_)(input.unflatten(-1, {position_.size(0), patch_}));
  tokens = tokens.to(position_.device()) + position_;
  for (const auto& block : blocks_) tokens = (*block)(tokens);
  return (*head_)((*norm_)(tokens).mean(1));
}

}  // namespace lockstep
