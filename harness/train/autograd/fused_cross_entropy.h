#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// What backward does with the gradient that it is handed, which is the product of all that the
/// loss was multiplied by.
///   ignored             returns what forward computed, as if the loss were never multiplied
///   in_place            multiplies what forward computed, in place: a second backward finds it so
///   out_of_place        multiplies it and leaves it as it is
enum class GradOutput { ignored, in_place, out_of_place };

struct FusedCrossEntropyOptions {
  std::int64_t chunks = 4;  ///< pieces of rows, as `tensor_split` cuts them
  /// Hidden states and scale are copied to the head's device inside of what is differentiated; else
  /// kernels get them as they are.
  bool moves_inputs = true;
  /// Gradients are computed by functorch (`functional_grad_and_value`), else by autograd.
  bool is_functional = false;
  /// Gradients are moved to where their inputs were; else they stay on the head's device.
  bool returns_gradients = true;
  GradOutput grad_output = GradOutput::out_of_place;
  /// Gradients are kept by `save_for_backward`, which notices when they are changed; else as
  /// attributes, which nobody watches.
  bool saves_for_backward = true;
};

/// A linear head and the mean cross-entropy of its predictions (0-dim) in one function that never
/// holds all logits: it goes through the rows in chunks and computes the gradients in forward, for
/// a loss that nobody multiplies. Liger's and Unsloth's, with ATen's operators for their kernels.
///
/// `hidden` [..., width]; `head_weight` [vocabulary, width], on whose device all is computed;
/// `scale`, 0-dim, multiplies the logits; undefined: 1. `labels` [...], int64, on any device; -100
/// counts for nothing. Throws c10::Error where torch does.
///
/// Source: Hsu et al., "Liger Kernel: efficient Triton kernels for LLM training", 2024.
at::Tensor fused_cross_entropy(const at::Tensor& hidden, const at::Tensor& head_weight,
                               const at::Tensor& scale, const at::Tensor& labels,
                               const FusedCrossEntropyOptions& options = {});

}  // namespace lockstep
