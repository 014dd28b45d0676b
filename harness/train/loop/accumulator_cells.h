#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/gradient_accumulator.h"
#include "harness/train/loop/tiled_mlps.h"

namespace lockstep {

// Conditions of scenarios about tiled MLPs with gradients added up by hooks:
//   hooks          published, mended (right), none
//   causes         the faults of the published hooks in this cell; without the axis: all
//   hands_over     returned, or set-only: see `HandOver`
//   sums_in        bfloat16: the dtype of the sum; otherwise that of `wide_dtype_of`
//   fewer_tiles    refused: an error if there are fewer tiles than requested
//   tile_slices    see `tiling_options`
//   law            weighed: the reference weighs tiles by the predicted formula
//   gradients      stay: those of earlier micro-batches stay whole on every rank

/// The axes of such a scenario, in the order of their names in a cell's folder: `tiles`, `length`,
/// `tile_values`, then `more`, then `accumulation`, then `last`.
std::vector<Axis> accumulator_axes(const std::vector<Axis>& more, const std::vector<Axis>& last);

/// The tiling of the MLPs, hooks included. `listed`: the parameters that hooks find on an MLP
/// wrapped by an engine; empty: the MLP's own.
TilingOptions accumulator_tiling(const Rank& rank, const HookedParameters& listed = {});

/// Trains on rows that are alike in every tile, or drawn. `prepare` tiles and shards the MLPs of
/// ranks. The reference has plain MLPs, and weighs tiles if the cell's condition `law` says so.
void train_with_accumulator(Rank& rank, const std::function<void(TiledMlps&)>& prepare,
                            CallSite site = CallSite::here());

/// Number of tiles that torch.chunk makes.
std::int64_t pieces_of(const Cell& cell);

/// The preconditions of such cells: equal tiles, and a formula for as many tiles as requested.
/// Empty: the cell can be run.
std::string refuse_tiles(const Cell& cell);

/// The result of published hooks that run unhindered: a multiple of the gradient if all tiles are
/// alike.
Expectation expect_published_hooks(const Cell& cell);
/// The same, but the last hook sets `.grad` and returns nothing.
Expectation expect_last_tile_twice(const Cell& cell);
/// Correct hooks that add up in bfloat16.
Expectation expect_sums_in_bfloat16(const Cell& cell);

}  // namespace lockstep
