#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace lockstep {

/// torch's `register_post_accumulate_grad_hook`: from now on `run` is called whenever autograd has
/// added to or set the `.grad` of `leaf`. The call comes from the node that did it, in a nested
/// backward, too. Replaces an earlier hook of this kind. Not called if gradients are requested as
/// results.
void on_gradient(const at::Tensor& leaf, std::function<void()> run);

}  // namespace lockstep
