#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// torch.nn.utils.clip_grad_norm_ with the L2 norm: scales the gradients of `parameters`, in place,
/// so that their common norm is at most `max_norm`. Returns the norm before; 0 when there is no
/// gradient. Parameters without a gradient are left out. A norm that is not finite is not refused:
/// as in torch it spreads to every gradient. Does not communicate: the norm is this rank's.
///
/// Where all gradients are of one dtype, torch's bits, with `foreach` or without.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm);

}  // namespace lockstep
