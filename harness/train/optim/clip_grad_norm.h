#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "harness/comm/process_group.h"

namespace lockstep {

/// torch.nn.utils.clip_grad_norm_ with the L2 norm: scales the gradients of `parameters`, in place,
/// so that their total norm is at most `max_norm`. Returns the previous norm; 0 if there is no
/// gradient. Parameters without a gradient are skipped. As in torch, a non-finite norm is not
/// refused and spreads to every gradient. Does not communicate: the norm is this rank's.
///
/// If all gradients have one dtype, the bits are torch's, with or without `foreach`.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm);

// Its two halves, for gradients of which this rank has a part.

/// torch.nn.utils.get_total_norm of the gradients, 0-dim; undefined if there is none.
at::Tensor total_grad_norm(const std::vector<at::Tensor>& parameters);
/// torch.nn.utils.clip_grads_with_norm_: scales the gradients as if their total norm were `norm`.
void clip_grads_with_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          const at::Tensor& norm);

/// The norm of all ranks' parts, whose norms are `mine` (0-dim).
at::Tensor norm_over_ranks(ProcessGroup& group, const at::Tensor& mine,
                           CallSite site = CallSite::here());

}  // namespace lockstep
