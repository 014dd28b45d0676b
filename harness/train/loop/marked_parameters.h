#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "harness/train/rank/rank.h"

namespace lockstep {

// Parameters that every rank of a tensor-parallel group holds whole, and that are marked: their
// gradients have to be reduced over the group. The condition `reduced` says how.

/// "by-hooks": sums their gradients over the ranks, in each backward pass from now on.
void reduce_by_hooks_if_asked(Rank& rank, const std::vector<at::Tensor>& marked);

/// "summed" or "averaged": reduces their gradients over the ranks. To be called after backward, as
/// Megatron does.
void reduce_after_backward_if_asked(Rank& rank, const std::vector<at::Tensor>& marked);

}  // namespace lockstep
