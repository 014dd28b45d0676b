#pragma once

#include <cstdint>
#include <functional>

#include "harness/train/nn/module.h"

namespace lockstep {

/// Simulates tiles of `module` whose parameter gradients count `weight_of(tile)` times, as a
/// prediction to compare with. From now on its input is cut like torch.chunk into `tiles` along
/// dimension 1, in one forward and backward. The gradient of the input is unchanged.
void weigh_tiles(Module& module, std::int64_t tiles,
                 std::function<double(std::int64_t tile)> weight_of);

}  // namespace lockstep
