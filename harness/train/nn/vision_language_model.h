#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "harness/train/nn/lora.h"
#include "harness/train/nn/module.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

/// Runs a part of a model: what `module.forward(input)` returns, perhaps in pieces, or computed
/// again in backward. The module lives as long as its model does.
using RunModule = std::function<at::Tensor(Module& module, const at::Tensor& input)>;

/// torch.nn.RMSNorm over the last dimension: weight [features], ones at first, eps 1e-6 as Llama's
/// and Qwen's. In bfloat16 it multiplies by the weight before it rounds; theirs after.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(std::int64_t features);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., features]

 private:
  at::Tensor weight_;
};

/// Attention of each token to itself and those before it: `query`, `key`, `value` and `output`
/// [width, width], without bias, drawn in this order as `Linear` draws them. Computed as matrix
/// products, mask and softmax, as `SelfAttention` is. Llama's and Qwen's, but without rotary
/// embedding, grouped keys and dropout.
class CausalSelfAttention : public Module {
 public:
  /// Throws Error (internal) unless `heads` divides `width`.
  CausalSelfAttention(std::int64_t width, std::int64_t heads, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, tokens, width]

  /// As SwiGlu's: query, key, value, output.
  void wrap_projections(const WrapModule& wrap);

 private:
  std::int64_t heads_;
  std::shared_ptr<Module> query_, key_, value_, output_;
};

/// A decoder layer of Llama or Qwen: input + attention of `attention_norm`, then that + MLP of
/// `mlp_norm`. Parameters in the order attention_norm, attention, mlp_norm, mlp.
class LanguageBlock : public Module {
 public:
  LanguageBlock(std::int64_t width, std::int64_t heads, std::int64_t hidden,
                GateActivation activation, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, tokens, width]

  /// From now on the MLP is run by `run`, which gets what `mlp_norm` returned.
  void run_mlp_with(RunModule run);

  /// The projections of the attention, then those of the MLP.
  void wrap_projections(const WrapModule& wrap);

 private:
  std::shared_ptr<RmsNorm> attention_norm_;
  std::shared_ptr<CausalSelfAttention> attention_;
  std::shared_ptr<RmsNorm> mlp_norm_;
  std::shared_ptr<SwiGlu> mlp_;
  RunModule run_mlp_;
};

struct VisionLanguageOptions {
  std::int64_t channels = 1;
  std::int64_t height = 8;  ///< of an image; a multiple of `patch`
  std::int64_t width = 8;   ///< of an image; a multiple of `patch`
  std::int64_t patch = 4;   ///< height and width of what makes one image token

  std::int64_t vision_width = 16;  ///< of an image token; a multiple of `vision_heads`
  std::int64_t vision_heads = 2;
  std::int64_t vision_hidden = 32;  ///< of the MLPs
  std::int64_t vision_blocks = 2;

  std::int64_t vocabulary = 32;
  std::int64_t max_text = 16;        ///< text tokens of the longest input
  std::int64_t language_width = 16;  ///< of a token; a multiple of `language_heads`
  std::int64_t language_heads = 2;
  std::int64_t language_hidden = 32;  ///< of the MLPs
  std::int64_t language_blocks = 2;
  GateActivation activation = GateActivation::silu;

  /// The head's weight is the embedding's: one parameter, used twice.
  bool tied_head = true;
  /// The first language block is run `language_blocks` times: one block's parameters.
  bool shared_blocks = false;
  /// Adapters on every projection of the language blocks, the rest frozen; absent: all is trained.
  std::optional<LoraOptions> lora = {};
};

/// One patch, one vision block and small widths: for scenarios about what stands around the model.
inline constexpr VisionLanguageOptions kTinyVisionLanguage{.height = 4,
                                                           .width = 4,
                                                           .vision_width = 8,
                                                           .vision_heads = 1,
                                                           .vision_hidden = 8,
                                                           .vision_blocks = 1};

/// A small model of images and text, built as LLaVA and Qwen-VL are: patches of the image, each a
/// token by a linear layer with its learned position; vision blocks (`TransformerBlock`); a
/// projector of two linear layers with a GELU between them; then the tokens of the text behind
/// those of the image, language blocks, an RmsNorm and a linear head without bias.
///
/// Not as theirs: learned positions instead of rotary ones, image tokens first instead of in the
/// place of a placeholder, one image per sample, no norm behind the vision blocks, no padding, and
/// all in the dtype of the parameters. The linear layer of a patch is ViT's convolution, as a
/// matrix product.
///
/// Its parts may be on several devices (`Module::run_on`): the image tokens are moved to where the
/// text is embedded, and positions to where they are added.
///
/// Parameters, in this order, float32, on the CPU:
///
///     vision.position               [patches, vision_width]
///     vision.embedding              Linear, channels * patch * patch to vision_width
///     vision.blocks.0 ...
///     projector.up, projector.down  Linear, vision_width to language_width, and that to itself
///     language.position             [patches + max_text, language_width]
///     language.embedding.weight     [vocabulary, language_width]
///     language.blocks.0 ...
///     language.norm.weight          [language_width]
///     language.head.weight          [vocabulary, language_width]; listed only where it is not tied
///
/// They are drawn from `generator` in this order too, positions and embedding from a normal
/// distribution with standard deviation 0.02; the adapters last, so that a model with adapters has
/// the weights of one without.
///
/// Source: Liu et al., "Visual instruction tuning", 2023.
class VisionLanguageModel : public Module {
 public:
  /// Throws Error (internal) for options that do not fit each other.
  VisionLanguageModel(const VisionLanguageOptions& options, const at::Generator& generator);

  /// Image [batch, channels, height, width] in the dtype of the parameters and tokens
  /// [batch, text], int64, of at most `max_text`, to logits [batch, patches + text, vocabulary].
  /// Throws c10::Error for other shapes, and for tokens beyond the vocabulary.
  at::Tensor forward(const at::Tensor& image, const at::Tensor& tokens);

  /// What the head is to predict the text from: [batch, text, language_width], the last image token
  /// and all text tokens but the last, on the device of the norm.
  at::Tensor hidden_states(const at::Tensor& image, const at::Tensor& tokens);

  /// [vocabulary, language_width]: the head's own, or the embedding's.
  const at::Tensor& head_weight() const;

  /// From now on every vision and every language block is run by `run`. With adapters, the vision
  /// blocks and the first language block get an input that requires no gradient.
  void run_blocks_with(const RunModule& run);

  /// From now on the MLP of every language block is run by `run`, inside what runs the block.
  void run_mlps_with(const RunModule& run);

 private:
  class Vision;
  class Language;

  /// Throws Error (internal): an image alone is no input.
  at::Tensor forward(const at::Tensor& input) override;

  /// [batch, patches + text, language_width].
  at::Tensor all_hidden_states(const at::Tensor& image, const at::Tensor& tokens);

  std::shared_ptr<Vision> vision_;
  std::shared_ptr<Module> projector_;
  std::shared_ptr<Language> language_;
};

/// Cross-entropy of every text token given all before it, their mean (0-dim): the last image token
/// predicts the first text token. `logits` as the model returns them, `labels` [batch, text],
/// int64: the tokens, or -100 for those that are not to count. In the dtype of `logits`, where real
/// models compute it in float32.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace lockstep
