#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

struct LoraOptions {
  std::int64_t rank = 4;
  double alpha = 8;  ///< the adapters' output is scaled by alpha / rank
  /// `lora_b` is drawn as `lora_a` is. The original begins with zeros: then the first gradient of
  /// every `lora_a` is zero, however wrongly it is reduced.
  bool draws_b = false;
  /// The layer is kept in 8 bits (`QuantisedLinear`), as QLoRA does in 4.
  bool quantises_base = false;
};

/// A linear layer that no longer learns, and beside it a product of two small ones that does:
/// base(x) + lora_b(lora_a(x)) * alpha / rank. `lora_a.weight` [rank, in] is drawn as `Linear`
/// draws (uniform, Kaiming with a = sqrt(5)), `lora_b.weight` [out, rank] is zeros. Parameters, in
/// this order: those of `base`, `lora_a.weight`, `lora_b.weight`.
///
/// As peft's layer of this kind, the order of the parameters and how they are drawn included, but
/// under shorter names, and without dropout, bias of the adapters, merging and more than one
/// adapter. The adapters have the dtype of the layer, where peft keeps those of a bfloat16 layer in
/// float32; around a quantised layer they are float32.
///
/// Source: Hu et al., "LoRA: low-rank adaptation of large language models", 2022.
class LoraLinear : public Module {
 public:
  /// Freezes `base`, whose first parameter, or buffer where it has no parameters, is a weight
  /// [out, in]. Throws Error (internal) when it is not, and for a rank below 1.
  LoraLinear(std::shared_ptr<Module> base, const LoraOptions& options,
             const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

 private:
  double scale_;
  std::shared_ptr<Module> base_;
  std::shared_ptr<Linear> lora_a_, lora_b_;
};

}  // namespace lockstep
