#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep {

// Axes shared by scenarios.

/// A condition that cannot affect a single process without a wrapper: references do not depend on
/// it.
Axis rank_axis(std::string name, std::vector<std::string> values, std::string default_value);

/// off, on.
Axis switch_axis(std::string name, bool in_reference = true);

/// dtype, of parameters and inputs: float32, float64, then `more`.
Axis dtype_axis(const std::vector<std::string>& more = {});

/// accumulation, micro-batches of a step: 1, 2.
Axis accumulation_axis();

/// bucket, of gradients that are reduced together: small, standard.
Axis bucket_axis();

/// tiles, their number: 1, 2, 4.
Axis tiles_axis(std::string default_value);

/// optimizer: sgd, adamw.
Axis optimizer_axis();

/// wrapper: ddp, or by-hand, with gradients averaged by the trainer.
Axis wrapper_axis();

/// The conditions of a training step under DDP, after the scenario's own, `first`:
///   accumulation   micro-batches of a step: 1, 2, 4
///   no_sync        whether all of them except the last run inside `no_sync`
///   prior          whether parameters have a gradient when the step begins
///   bucket_view, find_unused, static_graph     DDP's options
///   bucket         default, or small: a bucket per parameter, once they are rebuilt
///   dtype          of parameters and inputs
std::vector<Axis> ddp_axes(std::vector<Axis> first);

/// The axes of a model with activation checkpoints under DDP: `more`, then `batch` (rows), then
/// `early_stop` of `variants`, then those of `ddp_axes`, with fewer values because many blocks are
/// slow.
std::vector<Axis> checkpoint_axes(std::vector<Axis> more, std::vector<std::string> variants);

}  // namespace lockstep
