#pragma once

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "harness/comm/collective_recorder.h"
#include "harness/record/collective_log.h"

namespace lockstep {

/// The call that a rank is about to make, as its log has it. Takes the next number of the group, if
/// every rank of the group makes such calls.
Collective describe_call(c10d::OpType operation, at::TensorList tensors, RecordedGroup& group);

Collective with_reduction(Collective collective, const c10d::ReduceOp& reduction);

Collective with_root(Collective collective, std::int64_t root);

}  // namespace lockstep
