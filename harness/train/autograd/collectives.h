#pragma once

#include <ATen/core/Tensor.h>

#include "harness/comm/process_group.h"

namespace lockstep {

// Collectives that are part of autograd's graph. `group` outlives the graph. Backward runs a
// collective as well, so all ranks run it, in the same order. A test compares those that Python's
// torch has with them, bit for bit: torch.distributed.nn.functional.all_reduce, the functional
// collectives all_gather_tensor, reduce_scatter_tensor and all_to_all_single with autograd, and
// what DTensor's ColwiseParallel and RowwiseParallel call.

/// The sum of the ranks' `tensor`. Backward: the sum of the ranks' gradients of it.
at::Tensor summed_over_ranks(ProcessGroup& group, const at::Tensor& tensor);

// The conjugate pairs of tensor and sequence parallelism: the backward of one is the forward of the
// other. Megatron's names, of megatron/core/tensor_parallel/mappings.py, are in brackets.

/// The ranks' `part`, one below the other: [rows, ...] to [ranks * rows, ...]. Backward: each rank
/// gets the sum of the ranks' gradients of its part. [gather_from_sequence_parallel_region]
at::Tensor gathered_over_ranks(ProcessGroup& group, const at::Tensor& part);

/// This rank's rows of the sum of the ranks' `whole`: [ranks * rows, ...] to [rows, ...]. Backward:
/// gathers the ranks' gradients. [reduce_scatter_to_sequence_parallel_region]
at::Tensor scattered_sum_of_ranks(ProcessGroup& group, const at::Tensor& whole);

/// `tensor` itself, which is the same on all ranks. Backward: sums the ranks' gradients of it.
/// [copy_to_tensor_model_parallel_region]
at::Tensor copied_to_ranks(ProcessGroup& group, const at::Tensor& tensor);

/// The sum of the ranks' `partial`, on all ranks. Backward: the gradient, which is the same on all
/// ranks, itself. [reduce_from_tensor_model_parallel_region]
at::Tensor sum_on_all_ranks(ProcessGroup& group, const at::Tensor& partial);

/// Part i of each rank's rows for rank i, in rank order: of [ranks * rows, ...] the first `rows` go
/// to rank 0. Backward: the same exchange returns the gradients to where the rows came from.
at::Tensor exchanged_between_ranks(ProcessGroup& group, const at::Tensor& rows);

}  // namespace lockstep
