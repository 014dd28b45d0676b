#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

/// A linear layer that is loaded in 8 bits and no longer learns: buffers `weight` [out, in], int8,
/// and `scale` [out, 1], float32, the largest absolute value of each row / 127; and `bias`, if the
/// layer had one. Multiplies by weight * scale in the dtype of its input: no gradient of the
/// weight, an ordinary one of the input. An adapter (`LoraLinear`) goes around it as around a
/// `Linear`.
///
/// Other than bitsandbytes' layer, the input is not quantised, no column is kept in 16 bits, and
/// the product weight * scale is kept for backward, not computed again.
///
/// Source: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale",
/// 2022.
class QuantisedLinear : public Module {
 public:
  /// Rounds the weight of `layer` to the nearest multiple of its row's scale, ties to even; a row
  /// of zeros stays zero. Throws Error (internal) when its first parameter is no weight [out, in].
  explicit QuantisedLinear(const Module& layer);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

  at::Tensor dequantised() const;  ///< weight * scale, float32

 private:
  at::Tensor weight_, scale_, bias_;
};

}  // namespace lockstep
