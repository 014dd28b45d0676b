#pragma once

#include <cstddef>
#include <span>

#include "harness/record/observation.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// In the following, `bytes` are the elements of an observed part, of a known dtype, in row-major
/// order. Requires: as many as its shape says.

/// Fills the digest and the statistics of a comparable observation in one pass.
void measure(Observation& observation, std::span<const std::byte> bytes);

/// The same, and returns the part's sketch.
Sketch measure_and_sketch(Observation& observation, std::span<const std::byte> bytes);

/// The sketch alone.
Sketch sketch_of(const Observation& observation, std::span<const std::byte> bytes);

}  // namespace lockstep
