#pragma once

#include <cstdint>
#include <functional>

#include "harness/train/nn/module.h"

namespace lockstep {

/// What tiles of `module` would give if the gradients that tile `tile` has for its parameters
/// counted `weight_of(tile)` times, for a law to be held against: from now on its input is cut as
/// torch.chunk cuts it into `tiles` along dimension 1, in one forward and backward. What flows to
/// the input is as without.
void weigh_tiles(Module& module, std::int64_t tiles,
                 std::function<double(std::int64_t tile)> weight_of);

}  // namespace lockstep
