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

/// Runs a part of a model and returns the result of `module.forward(input)`. It may run in pieces,
/// or be recomputed in backward. The module lives as long as its model.
using RunModule = std::function<at::Tensor(Module& module, const at::Tensor& input)>;

/// torch.nn.RMSNorm over the last dimension: weight [features], initially ones, eps 1e-6 like
/// Llama's and Qwen's. In bfloat16 it multiplies by the weight before it rounds; theirs multiply
/// after.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(std::int64_t features);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., features]

 private:
  at::Tensor weight_;
};

/// Attention of each token to itself and earlier tokens. `query`, `key`, `value` and `output` are
/// [width, width] without bias, drawn in this order like `Linear`. Computed with matrix products,
/// mask and softmax, like `SelfAttention`. Follows Llama's and Qwen's, without rotary embedding,
/// grouped keys and dropout.
class CausalSelfAttention : public Module {
 public:
  /// Throws Error (internal) unless `heads` divides `width`.
  CausalSelfAttention(std::int64_t width, std::int64_t heads, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, tokens, width]

  /// Like SwiGlu's: query, key, value, output.
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

  /// From now on `run` runs the MLP, with the output of `mlp_norm`.
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
  std::int64_t patch = 4;   ///< height and width of the patch of one image token

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
  /// Runs the first language block `language_blocks` times, with one set of parameters.
  bool shared_blocks = false;
  /// Adapters on every projection of the language blocks, with the rest frozen; absent: everything
  /// is trained.
  std::optional<LoraOptions> lora = {};
};

/// One patch, one vision block and small widths, for scenarios about code around the model.
inline constexpr VisionLanguageOptions kTinyVisionLanguage{.height = 4,
                                                           .width = 4,
                                                           .vision_width = 8,
                                                           .vision_heads = 1,
                                                           .vision_hidden = 8,
                                                           .vision_blocks = 1};

/// The same with one language block, and a head with a weight of its own.
inline constexpr VisionLanguageOptions kTinyUntied = [] {
  VisionLanguageOptions options = kTinyVisionLanguage;
  options.language_blocks = 1;
  options.tied_head = false;
  return options;
}();

/// A small model of images and text, with the structure of LLaVA and Qwen-VL. A linear layer turns
/// each image patch into a token with a learned position. Vision blocks (`TransformerBlock`)
/// follow, then a projector of two linear layers with a GELU between them. The text tokens are
/// appended to the image tokens. Language blocks, an RmsNorm and a linear head without bias follow.
///
/// Differences from those models: learned instead of rotary positions, and image tokens in front
/// instead of at a placeholder. There is one image per sample, no norm after the vision blocks and
/// no padding, and everything has the parameters' dtype. The linear layer of a patch is ViT's
/// convolution, as a matrix product.
///
/// Parts may be on several devices (`Module::run_on`). Image tokens are moved to the device of the
/// text embedding, and positions to the device that adds them.
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
///     language.head.weight          [vocabulary, language_width]; listed only if it is not tied
///
/// They are drawn from `generator` in the same order, positions and embedding from a normal
/// distribution with standard deviation 0.02. The adapters are drawn last, so that a model with
/// adapters has the weights of one without.
///
/// Source: Liu et al., "Visual instruction tuning", 2023.
class VisionLanguageModel : public Module {
 public:
  /// Throws Error (internal) for inconsistent options.
  VisionLanguageModel(const VisionLanguageOptions& options, const at::Generator& generator);

  /// From an image [batch, channels, height, width] in the parameters' dtype and tokens [batch,
  /// text], int64, at most `max_text`, to logits [batch, patches + text, vocabulary]. Throws
  /// c10::Error for other shapes, and for tokens beyond the vocabulary.
  at::Tensor forward(const at::Tensor& image, const at::Tensor& tokens);

  /// The head's input for predicting the text: [batch, text, language_width]. It contains the last
  /// image token and all text tokens except the last, on the device of the norm.
  at::Tensor hidden_states(const at::Tensor& image, const at::Tensor& tokens);

  /// [vocabulary, language_width]: the head's own, or the embedding's.
  const at::Tensor& head_weight() const;

  /// From now on `run` runs every vision and language block. With adapters, the input of the vision
  /// blocks and of the first language block requires no gradient.
  void run_blocks_with(const RunModule& run);

  /// From now on `run` runs the MLP of every language block, inside the function that runs the
  /// block.
  void run_mlps_with(const RunModule& run);

 private:
  class Vision;
  class Language;

  /// Throws Error (internal), because an image alone is not an input.
  at::Tensor forward(const at::Tensor& input) override;

  /// [batch, patches + text, language_width].
  at::Tensor all_hidden_states(const at::Tensor& image, const at::Tensor& tokens);

  std::shared_ptr<Vision> vision_;
  std::shared_ptr<Module> projector_;
  std::shared_ptr<Language> language_;
};

/// Mean cross-entropy (0-dim) of every text token given all tokens before it. The last image token
/// predicts the first text token. `logits` are those of the model. `labels` [batch, text], int64,
/// are the tokens, or -100 for those to ignore. The result has the dtype of `logits`; real models
/// compute it in float32.
at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace lockstep
