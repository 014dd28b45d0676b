#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/module.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

// The shared conditions of scenarios about tiled MLPs.

/// The axes of a tiled MLP under DDP: `tiles`, `length` and `batch`, then `more`, then those of
/// `ddp_axes`. References do not depend on `tiles`: they compute the whole input at once.
std::vector<Axis> tiled_axes(std::vector<Axis> more = {});

/// The cell's tiling of a function, by its conditions. A missing condition has the default of
/// `TilingOptions`.
///   tiles               their number
///   tile_backward       per-tile, grad-but-last, explicit-inputs
///   tile_accumulation   in-place, set-aside
///   tile_cut            even-rows, chunked-rows, chunked-sequence
///   tile_slices         own, fixed-step, cumulative-step
/// Throws Error (internal) for another word.
TilingOptions tiling_options(const Rank& rank);

/// Why a world of one rank cannot run the cell; empty: it can. A single rank trains without DDP.
std::string refuse_ddp_of_one_rank(const Cell& cell);

/// Trains `model` with the forward `run`, on normal numbers [batch, length, width] and targets of
/// the same shape. A single rank trains without DDP.
void train_on_sequences(Rank& rank, Module& model, std::int64_t width, const Module::Forward& run);

}  // namespace lockstep
