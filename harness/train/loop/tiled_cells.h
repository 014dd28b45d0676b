#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/nn/module.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

// The conditions that scenarios about tiled MLPs share.

/// The axes of a tiled MLP under DDP: `tiles`, `length` and `batch`, then `more`, then those of
/// `ddp_axes`. References compute the whole input at once, so that `tiles` is no axis of theirs.
std::vector<Axis> tiled_axes(std::vector<Axis> more = {});

/// How the cell tiles a function, by its conditions. A condition that it lacks has the default of
/// `TilingOptions`.
///   tiles               their number
///   tile_backward       per-tile, grad-but-last, explicit-inputs
///   tile_accumulation   in-place, set-aside
///   tile_cut            even-rows, chunked-rows, chunked-sequence
///   tile_slices         own, fixed-step, cumulative-step
/// Throws Error (internal) for another word.
TilingOptions tiling_options(const Rank& rank);

/// Why a world of one rank, which trains without DDP, cannot run the cell; empty: it can.
std::string refuse_ddp_of_one_rank(const Cell& cell);

/// Trains `model` by `run`, its forward, on normal numbers [batch, length, width] and targets of
/// the same shape. A single rank trains without DDP.
void train_on_sequences(Rank& rank, Module& model, std::int64_t width, const Module::Forward& run);

}  // namespace lockstep
