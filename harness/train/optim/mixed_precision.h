#pragma once

#include "harness/train/nn/module.h"

namespace lockstep {

/// Makes `low`, a model like `master` in a narrower dtype, what `master` computes with: at each
/// call of `low` its parameters take `master`'s values, rounded, and what backward has for them is
/// added to `master`'s gradients, in `master`'s dtype. Mixed precision with whole parameters, in
/// one process: what a sharded one is held against.
///
/// Both have the same parameters in the same order, and live as long as they are trained. Where
/// several calls share one backward, values must not change between them, and their gradients are
/// first added up in `low`'s dtype. Throws Error (internal) where numbers of parameters differ.
void compute_with(Module& low, Module& master);

}  // namespace lockstep
