#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

struct LoraOptions {
  std::int64_t rank = 4;
  double alpha = 8;  ///< scale of the adapters' output: alpha / rank
  /// Draws `lora_b` like `lora_a`. The original starts with zeros, so the first gradient of every
  /// `lora_a` is zero, however wrongly it is reduced.
  bool draws_b = false;
  /// Stores the layer in 8 bits (`QuantisedLinear`), as QLoRA does in 4.
  bool quantises_base = false;
};

/// A frozen linear layer plus a trainable product of two small ones: base(x) + lora_b(lora_a(x)) *
/// alpha / rank. `lora_a.weight` [rank, in] is drawn like `Linear` (uniform, Kaiming with a =
/// sqrt(5)), `lora_b.weight` [out, rank] is zeros. Parameters, in this order: those of `base`,
/// `lora_a.weight`, `lora_b.weight`.
///
/// Follows peft's layer of this kind, including the order and initialisation of the parameters.
/// Names are shorter, and there is no dropout, no adapter bias, no merging and only one adapter.
/// The adapters have the dtype of the layer, whereas peft keeps those of a bfloat16 layer in
/// float32. Around a quantised layer they are float32.
///
/// Source: Hu et al., "LoRA: low-rank adaptation of large language models", 2022.
class LoraLinear : public Module {
 public:
  /// Freezes `base`. Its first parameter, or its first buffer if it has no parameters, must be a
  /// weight [out, in]. Throws Error (internal) when it is not, and for a rank below 1.
  LoraLinear(std::shared_ptr<Module> base, const LoraOptions& options,
             const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

 private:
  double scale_;
  std::shared_ptr<Module> base_;
  std::shared_ptr<Linear> lora_a_, lora_b_;
};

}  // namespace lockstep
