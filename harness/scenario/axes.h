#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

// Conditions that scenarios share, as axes. `Axis::in_reference` is false where one process without
// a wrapper cannot depend on them.

/// off, on.
Axis switch_axis(std::string name, bool in_reference = true);

/// wrapper: ddp, or by-hand, where the trainer averages the gradients itself.
Axis wrapper_axis();

/// The conditions of a training step under DDP, in addition to those of the scenario, `first`:
///   accumulation   micro-batches of a step: 1, 2, 4
///   no_sync        whether all of them but the last run inside `no_sync`
///   prior          whether parameters have a gradient when the step begins
///   bucket_view, find_unused, static_graph     DDP's options
///   bucket         standard, or small: a bucket per parameter, once they are rebuilt
///   dtype          of parameters and inputs
std::vector<Axis> ddp_axes(std::vector<Axis> first);

/// The axes of a model with activation checkpoints under DDP: `more`, then `batch` (rows), then
/// `early_stop` of `variants`, then those of `ddp_axes`, fewer values where many blocks take time.
std::vector<Axis> checkpoint_axes(std::vector<Axis> more, std::vector<std::string> variants);

}  // namespace lockstep
