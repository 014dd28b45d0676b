#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Backward's treatment of the incoming gradient, the product of all factors of the loss.
///   ignored             returns forward's gradients, as if the loss were never multiplied
///   in_place            multiplies forward's gradients in place: a second backward sees the result
///   out_of_place        multiplies them into new tensors
enum class GradOutput { ignored, in_place, out_of_place };

struct FusedCrossEntropyOptions {
  std::int64_t chunks = 4;  ///< pieces of rows, as `tensor_split` cuts them
  /// Copies hidden states and scale to the head's device inside the differentiated function;
  /// otherwise kernels receive them unmoved.
  bool moves_inputs = true;
  /// Computes gradients with functorch (`functional_grad_and_value`), otherwise with autograd.
  bool is_functional = false;
  /// Moves gradients to the devices of their inputs; otherwise they stay on the head's device.
  bool returns_gradients = true;
  GradOutput grad_output = GradOutput::out_of_place;
  /// Stores gradients with `save_for_backward`, which detects changes; otherwise as attributes,
  /// which are not checked.
  bool saves_for_backward = true;
};

/// A linear head and the mean cross-entropy of its predictions (0-dim) in one function that never
/// holds all logits. It processes the rows in chunks and computes the gradients in forward, for a
/// loss without further factors. Follows Liger and Unsloth, with ATen operators instead of their
/// kernels.
///
/// `hidden` is [..., width]. `head_weight` is [vocabulary, width]; its device does all the work.
/// `scale`, 0-dim, multiplies the logits; undefined: 1. `labels` are [...], int64, on any device;
/// -100 is ignored. Throws c10::Error like torch.
///
/// Source: Hsu et al., "Liger Kernel: efficient Triton kernels for LLM training", 2024.
at::Tensor fused_cross_entropy(const at::Tensor& hidden, const at::Tensor& head_weight,
                               const at::Tensor& scale, const at::Tensor& labels,
                               const FusedCrossEntropyOptions& options = {});

}  // namespace lockstep
