#pragma once

#include <cstddef>
#include <set>

#include "harness/train/optim/optimizer.h"

namespace lockstep {

/// Requires as many tensors of each of `parameters` as `sizes` has: of SGD 0, of AdamW 0 or 3.
/// Throws Error (internal) if there are others.
void require_state(const OptimizerState& state, std::size_t parameters,
                   const std::set<std::size_t>& sizes);

}  // namespace lockstep
