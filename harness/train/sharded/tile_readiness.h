#pragma once

#include <string>
#include <vector>

#include "harness/train/autograd/tiled.h"

namespace lockstep {

/// How a tile function tells ZeRO that a parameter's gradient is incomplete.
struct TileReadiness {
  /// Marks its parameters only if any of them has one of these attributes, by which the function
  /// recognises its engine; empty: always.
  std::vector<std::string> markers = {};
  /// Last tile: of the existing tiles. Otherwise of the requested ones, which may never come;
  /// parameters then stay as they are.
  bool counts_pieces = false;
};

/// Extends `tiling`: before each tile, every parameter is marked as being in the last tile or not,
/// in the attribute that ZeRO's hooks read (`zero_attribute::kGradientIsReady`). If they are not
/// marked, the previous `before_tile` of `tiling` runs instead. Requires backward_per_tile, in
/// place.
///
/// Source: DeepSpeed's TiledMLP, which always marks and counts the requested tiles.
void tell_readiness(TilingOptions& tiling, const TileReadiness& readiness = {});

}  // namespace lockstep
