#include "harness/train/nn/vision_language_model.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/train/nn/transformer.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

constexpr double kDeviation = 0.02;  // of positions and embeddings

at::Tensor normal(at::IntArrayRef shape, const at::Generator& generator) {
  return at::randn(shape, generator, at::TensorOptions()) * kDeviation;
}

at::Tensor call_forward(Module& module, const at::Tensor& input) { return module(input); }

void require_divides(std::string_view what, std::int64_t whole, std::int64_t part) {
  if (whole > 0 && part > 0 && whole % part == 0) return;
  throw internal_error(
      fmt::format("a vision-language model cannot cut its {} of {} by {}", what, whole, part));
}

void require_at_least(std::int64_t least, std::string_view what, std::int64_t value) {
  if (value >= least) return;
  throw internal_error(
      fmt::format("a vision-language model needs at least {} of {}, not {}", least, what, value));
}

/// Checks the sizes that no layer checks itself.
VisionLanguageOptions checked(const VisionLanguageOptions& options) {
  require_divides("height", options.height, options.patch);
  require_divides("width", options.width, options.patch);
  require_divides("vision width", options.vision_width, options.vision_heads);
  require_divides("language width", options.language_width, options.language_heads);
  require_at_least(1, "channels", options.channels);
  require_at_least(1, "vision hidden", options.vision_hidden);
  require_at_least(0, "vision blocks", options.vision_blocks);
  require_at_least(1, "vocabulary", options.vocabulary);
  require_at_least(1, "text tokens", options.max_text);
  require_at_least(1, "language hidden", options.language_hidden);
  require_at_least(1, "language blocks", options.language_blocks);
  return options;
}

std::int64_t patches_of(const VisionLanguageOptions& options) {
  return options.height / options.patch * (options.width / options.patch);
}

/// torch.nn.Embedding with other initial values.
class Embedding : public Module {
 public:
  Embedding(std::int64_t entries, std::int64_t width, const at::Generator& generator)
      : weight_(register_parameter("weight", normal({entries, width}, generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return at::embedding(weight_, input); }

  /// For the head of a model: the product of `input` with every entry.
  at::Tensor logits(const at::Tensor& input) const {
    return at::linear(input.to(weight_.device()), weight_);
  }

  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

class Projector : public Module {
 public:
  Projector(std::int64_t in, std::int64_t out, const at::Generator& generator)
      : up_(register_module("up", std::make_shared<Linear>(in, out, generator))),
        down_(register_module("down", std::make_shared<Linear>(out, out, generator))) {}

  at::Tensor forward(const at::Tensor& input) override { return (*down_)(at::gelu((*up_)(input))); }

 private:
  std::shared_ptr<Linear> up_, down_;
};

}  // namespace

RmsNorm::RmsNorm(std::int64_t features)
    : weight_(register_parameter("weight", at::ones({features}))) {}

at::Tensor RmsNorm::forward(const at::Tensor& input) {
  return at::rms_norm(input, weight_.sizes(), weight_, /*eps=*/1e-6);
}

CausalSelfAttention::CausalSelfAttention(std::int64_t width, std::int64_t heads,
                                         const at::Generator& generator)
    : heads_(heads),
      query_(register_module("query", std::make_shared<Linear>(width, width, generator, false))),
      key_(register_module("key", std::make_shared<Linear>(width, width, generator, false))),
      value_(register_module("value", std::make_shared<Linear>(width, width, generator, false))),
      output_(register_module("output", std::make_shared<Linear>(width, width, generator, false))) {
  require_divides("language width", width, heads);
}

at::Tensor CausalSelfAttention::forward(const at::Tensor& input) {
  const auto heads_of = [&](Module& projection) {
    return projection(input).unflatten(-1, {heads_, -1}).transpose(1, 2);
  };
  const at::Tensor query = heads_of(*query_), key = heads_of(*key_), value = heads_of(*value_);
  const at::Tensor attended = std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0, /*is_causal=*/true));
  return (*output_)(attended.transpose(1, 2).flatten(-2));
}

void CausalSelfAttention::wrap_projections(const WrapModule& wrap) {
  query_ = replace_module("query", wrap(query_));
  key_ = replace_module("key", wrap(key_));
  value_ = replace_module("value", wrap(value_));
  output_ = replace_module("output", wrap(output_));
}

LanguageBlock::LanguageBlock(std::int64_t width, std::int64_t heads, std::int64_t hidden,
                             GateActivation activation, const at::Generator& generator)
    : attention_norm_(register_module("attention_norm", std::make_shared<RmsNorm>(width))),
      attention_(register_module("attention",
                                 std::make_shared<CausalSelfAttention>(width, heads, generator))),
      mlp_norm_(register_module("mlp_norm", std::make_shared<RmsNorm>(width))),
      mlp_(register_module("mlp", std::make_shared<SwiGlu>(width, hidden, generator, activation))),
      run_mlp_(call_forward) {}

at::Tensor LanguageBlock::forward(const at::Tensor& input) {
  const at::Tensor attended = input + (*attention_)((*attention_norm_)(input));
  return attended + run_mlp_(*mlp_, (*mlp_norm_)(attended));
}

void LanguageBlock::run_mlp_with(RunModule run) { run_mlp_ = std::move(run); }

void LanguageBlock::wrap_projections(const WrapModule& wrap) {
  attention_->wrap_projections(wrap);
  mlp_->wrap_projections(wrap);
}

class VisionLanguageModel::Vision : public Module {
 public:
  Vision(const VisionLanguageOptions& options, const at::Generator& generator)
      : rows_(options.height / options.patch),
        columns_(options.width / options.patch),
        patch_(options.patch),
        position_(register_parameter(
            "position", normal({patches_of(options), options.vision_width}, generator))),
        embedding_(register_module(
            "embedding", std::make_shared<Linear>(options.channels * options.patch * options.patch,
                                                  options.vision_width, generator))) {
    for (std::int64_t i = 0; i < options.vision_blocks; ++i) {
      blocks_.push_back(register_module(
          fmt::format("blocks.{}", i),
          std::make_shared<TransformerBlock>(options.vision_width, options.vision_heads,
                                             options.vision_hidden, generator)));
    }
  }

  at::Tensor forward(const at::Tensor& image) override {
    // [batch, rows, columns, channels, height of a patch, width of a patch]
    const at::Tensor patches = image.unflatten(3, {columns_, patch_})
                                   .unflatten(2, {rows_, patch_})
                                   .permute({0, 2, 4, 1, 3, 5});
    at::Tensor tokens = (*embedding_)(patches.flatten(3).flatten(1, 2));
    tokens = tokens.to(position_.device()) + position_;
    for (const auto& block : blocks_) tokens = run_block(*block, tokens);
    return tokens;
  }

  RunModule run_block = call_forward;

 private:
  std::int64_t rows_, columns_, patch_;
  at::Tensor position_;
  std::shared_ptr<Linear> embedding_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
};

class VisionLanguageModel::Language : public Module {
 public:
  Language(const VisionLanguageOptions& options, const at::Generator& generator)
      : position_(register_parameter(
            "position",
            normal({patches_of(options) + options.max_text, options.language_width}, generator))),
        embedding_(register_module(
            "embedding",
            std::make_shared<Embedding>(options.vocabulary, options.language_width, generator))),
        layers_(options.language_blocks) {
    for (std::int64_t i = 0; i < (options.shared_blocks ? 1 : layers_); ++i) {
      blocks.push_back(register_module(
          fmt::format("blocks.{}", i),
          std::make_shared<LanguageBlock>(options.language_width, options.language_heads,
                                          options.language_hidden, options.activation, generator)));
    }
    norm_ = register_module("norm", std::make_shared<RmsNorm>(options.language_width));
    if (options.tied_head) return;
    head_ = register_module("head", std::make_shared<Linear>(options.language_width,
                                                             options.vocabulary, generator, false));
  }

  at::Tensor embed(const at::Tensor& tokens) { return (*embedding_)(tokens); }

  /// From embedded tokens to hidden states.
  at::Tensor forward(const at::Tensor& embedded) override {
    at::Tensor tokens = embedded.to(position_.device()) + position_.narrow(0, 0, embedded.size(1));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      tokens = run_block(*blocks[static_cast<std::size_t>(layer) % blocks.size()], tokens);
    }
    return (*norm_)(tokens);
  }

  at::Tensor logits(const at::Tensor& hidden) {
    return head_ ? (*head_)(hidden) : embedding_->logits(hidden);
  }

  const at::Tensor& head_weight() const { return head_ ? head_->weight() : embedding_->weight(); }

  RunModule run_block = call_forward;
  std::vector<std::shared_ptr<LanguageBlock>> blocks;

 private:
  at::Tensor position_;
  std::shared_ptr<Embedding> embedding_;
  std::int64_t layers_;
  std::shared_ptr<RmsNorm> norm_;
  std::shared_ptr<Linear> head_;
};

VisionLanguageModel::VisionLanguageModel(const VisionLanguageOptions& options,
                                         const at::Generator& generator)
    : vision_(register_module("vision", std::make_shared<Vision>(checked(options), generator))),
      projector_(register_module(
          "projector",
          std::make_shared<Projector>(options.vision_width, options.language_width, generator))),
      language_(register_module("language", std::make_shared<Language>(options, generator))) {
  if (!options.lora) return;
  freeze();
  for (const auto& block : language_->blocks) {
    block->wrap_projections([&](std::shared_ptr<Module> projection) {
      return std::make_shared<LoraLinear>(std::move(projection), *options.lora, generator);
    });
  }
}

at::Tensor VisionLanguageModel::all_hidden_states(const at::Tensor& image,
                                                  const at::Tensor& tokens) {
  const at::Tensor text = language_->embed(tokens);
  const at::Tensor seen = (*projector_)((*vision_)(image)).to(text.device());
  return (*language_)(at::cat({seen, text}, 1));
}

at::Tensor VisionLanguageModel::forward(const at::Tensor& image, const at::Tensor& tokens) {
  return language_->logits(all_hidden_states(image, tokens));
}

at::Tensor VisionLanguageModel::hidden_states(const at::Tensor& image, const at::Tensor& tokens) {
  const at::Tensor hidden = all_hidden_states(image, tokens);
  return hidden.narrow(1, hidden.size(1) - tokens.size(1) - 1, tokens.size(1));
}

const at::Tensor& VisionLanguageModel::head_weight() const { return language_->head_weight(); }

at::Tensor VisionLanguageModel::forward(const at::Tensor& /*input*/) {
  throw internal_error("a vision-language model needs an image and its text");
}

void VisionLanguageModel::run_blocks_with(const RunModule& run) {
  vision_->run_block = run;
  language_->run_block = run;
}

void VisionLanguageModel::run_mlps_with(const RunModule& run) {
  for (const auto& block : language_->blocks) block->run_mlp_with(run);
}

at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels) {
  const std::int64_t text = labels.size(1);
  const at::Tensor predictions = logits.narrow(1, logits.size(1) - text - 1, text);
  return at::cross_entropy_loss(predictions.flatten(0, 1), labels.flatten());
}

}  // namespace lockstep
