#pragma once

#include <optional>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Origin of a gradient. Both parts are empty if it is unknown.
struct DiagnosedAttribution {
  std::optional<GradientAttribution> kind;
  /// "it is the rank's own gradient: never synchronised", "it is the mean of a on rank 0 and b on
  /// rank 1: different tensors were reduced with each other".
  std::string words;
};

/// Finds the origin of a gradient of `rank` that differs from the reference, by the reference's
/// gradients of each rank's shard alone. A gradient counts as never synchronised only if no other
/// rank holds it. `actual` is of `step`.
DiagnosedAttribution attribution_of_gradient(const CellStep& step, int world_size,
                                             const Observation& actual, int rank);

}  // namespace lockstep
