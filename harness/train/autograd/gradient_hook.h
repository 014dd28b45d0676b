#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// torch's `register_post_accumulate_grad_hook`: from now on `run` is called whenever autograd has
/// added to, or set, the `.grad` of `leaf`, from the node that did it; in a nested backward, too.
/// Replaces an earlier one of this kind. Not called where gradients are asked for as results.
void on_gradient(const at::Tensor& leaf, std::function<void()> run);

}  // namespace lockstep
