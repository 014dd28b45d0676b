#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "harness/train/nn/module.h"

namespace lockstep {

/// A frozen linear layer stored in 8 bits. Buffers: `weight` [out, in], int8; `scale` [out, 1],
/// float32, the largest absolute value of each row / 127; and `bias`, if the layer had one.
/// Multiplies by weight * scale in the dtype of its input. The weight has no gradient, the input an
/// ordinary one. An adapter (`LoraLinear`) wraps it like a `Linear`.
///
/// Unlike bitsandbytes' layer, it does not quantise the input and keeps no column in 16 bits. The
/// product weight * scale is stored for backward, not recomputed.
///
/// Source: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale",
/// 2022.
class QuantisedLinear : public Module {
 public:
  /// Rounds the weight of `layer` to the nearest multiple of its row's scale, ties to even; a row
  /// of zeros stays zero. Throws Error (internal) when its first parameter is not a weight [out,
  /// in].
  explicit QuantisedLinear(const Module& layer);
  at::Tensor forward(const at::Tensor& input) override;  ///< [..., in] to [..., out]

  at::Tensor dequantised() const;  ///< weight * scale, float32

 private:
  at::Tensor weight_, scale_, bias_;
};

}  // namespace lockstep
