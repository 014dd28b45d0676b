#pragma once

#include "harness/train/nn/module.h"

namespace lockstep {

/// Lets `master` compute with `low`, a model like `master` in a narrower dtype. Each call of `low`
/// rounds `master`'s values into its parameters. Backward adds their gradients to `master`'s, in
/// `master`'s dtype. It is mixed precision with whole parameters, in one process, for comparison
/// with sharded training.
///
/// Both have the same parameters in the same order, and live as long as they are trained. If
/// several calls share one backward, values must not change between them, and their gradients are
/// first summed in `low`'s dtype. Throws Error (internal) if the numbers of parameters differ.
void compute_with(Module& low, Module& master);

}  // namespace lockstep
