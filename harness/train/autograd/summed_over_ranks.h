#pragma once

#include <ATen/core/Tensor.h>

#include "harness/comm/process_group.h"

namespace lockstep {

/// torch.distributed.nn.functional.all_reduce: the sum of the ranks' `tensor`, whose backward sums
/// the ranks' gradients of it. `group` outlives the graph.
at::Tensor summed_over_ranks(ProcessGroup& group, const at::Tensor& tensor);

}  // namespace lockstep
