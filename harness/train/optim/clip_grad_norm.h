#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// torch.nn.utils.clip_grad_norm_ with the L2 norm: scales the gradients of `parameters`, in place,
/// so that their total norm is at most `max_norm`. Returns the previous norm; 0 if there is no
/// gradient. Parameters without a gradient are skipped. As in torch, a non-finite norm is not
/// refused and spreads to every gradient. Does not communicate: the norm is this rank's.
///
/// If all gradients have one dtype, the bits are torch's, with or without `foreach`.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm);

}  // namespace lockstep
