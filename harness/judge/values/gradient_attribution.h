#pragma once

#include <optional>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Whose gradient one is. Both parts are empty where that is not known.
struct DiagnosedAttribution {
  std::optional<GradientAttribution> kind;
  /// "it is the rank's own gradient: never synchronised", "it is the mean of a on rank 0 and b on
  /// rank 1: different tensors were reduced with each other".
  std::string words;
};

/// Where a gradient of `rank` that is not the reference's comes from, by the reference's notes of
/// what each rank's shard alone gives. Never synchronised is only what no other rank holds.
/// `actual` is of `step`.
DiagnosedAttribution attribution_of_gradient(const CellStep& step, int world_size,
                                             const Observation& actual, int rank);

}  // namespace lockstep
