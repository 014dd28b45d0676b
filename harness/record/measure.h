#pragma once

#include "harness/record/observation.h"
#include "harness/record/sketch.h"
#include "harness/record/tensor_bytes.h"

namespace lockstep {

/// In the following, `bytes` are the elements of an observed part, of a known dtype. Requires: as
/// many as its shape says.

/// Fills the digest and the statistics of a comparable observation in one pass.
void measure(Observation& observation, const TensorBytes& bytes);

/// The same, and returns the part's sketch.
Sketch measure_and_sketch(Observation& observation, const TensorBytes& bytes);

/// The sketch alone.
Sketch sketch_of(const Observation& observation, const TensorBytes& bytes);

}  // namespace lockstep
