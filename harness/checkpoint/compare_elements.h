#pragma once

#include "harness/checkpoint/checkpoint.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Reads both tensors block by block, in linear time, whatever their chunks are. Requires: they
/// have the same shape, and as many components per element. Throws Error (usage) if a chunk is
/// malformed.
ElementDifferences compare_elements(const CheckpointTensor& a, const CheckpointTensor& b);

}  // namespace lockstep
