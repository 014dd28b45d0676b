#pragma once

#include <string>
#include <vector>

#include "harness/train/autograd/tiled.h"

namespace lockstep {

/// How a tile function tells ZeRO that a parameter's gradient is not whole yet.
struct TileReadiness {
  /// Its parameters are told only where any of them has one of these attributes, by which the
  /// function sees what engine it runs under; empty: always.
  std::vector<std::string> markers = {};
  /// The last tile is that of those that there are; else that of those asked for, which may never
  /// come, and parameters then stay as they are.
  bool counts_pieces = false;
};

/// Adds to `tiling` that parameters are told before each tile whether it is the last, by the
/// attribute that ZeRO's hooks read (`zero_attribute::kGradientIsReady`). Where they are not, there
/// is what `tiling` did before each tile until now. Requires backward_per_tile, in place.
///
/// Source: DeepSpeed's TiledMLP, which tells always and counts the tiles that were asked for.
void tell_readiness(TilingOptions& tiling, const TileReadiness& readiness = {});

}  // namespace lockstep
