#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/train/nn/module.h"

namespace lockstep {

/// How the backward of a tiled function comes by the gradients of its parameters.
///   backward_per_tile   one backward() per tile, as tiled MLPs were first written: every gradient
///                       hook of a parameter runs once per tile
///   grad_but_last       gradients of all tiles but the last are computed without hooks and added
///                       to `.grad`, then backward() for the last tile: hooks run once, if the last
///                       tile uses the parameter
///   explicit_inputs     the parameters are inputs of the function: their gradients are summed over
///                       the tiles and returned once, as those of any other function
enum class TileBackward { backward_per_tile, grad_but_last, explicit_inputs };

/// Where the gradients of earlier tiles are, and what `.grad` held before, while a tile's backward
/// runs. Explicit inputs touch no `.grad` and ignore it.
///   in_place    in `.grad`
///   set_aside   beside it. With backward_per_tile every tile's gradient is taken out of an empty
///               `.grad`, and the sum put there at the end. With grad_but_last the sum is put there
///               by the last tile but one: a single tile puts nothing back, and what `.grad` held
///               before is lost.
enum class TileAccumulation { in_place, set_aside };

/// What the random generators are while a tile is recomputed.
///   restored         as they were when that tile was computed in forward
///   drawn_anew       as they happen to be
///   first_for_all    as they were when the first tile was computed
enum class TileRandom { restored, drawn_anew, first_for_all };

/// Where one tile ends and the next one begins.
///   even_rows          leading dimensions count as rows; tiles differ by at most one row and are
///                      as many as asked for
///   chunked_rows       torch.chunk of the rows: all tiles but the last have ceil(rows / tiles) of
///                      them, so there may be fewer tiles than asked for
///   chunked_sequence   torch.chunk along the last dimension but one: a tile has its part of the
///                      sequence of every batch
enum class TileCut { even_rows, chunked_rows, chunked_sequence };

/// Which part of the outputs' gradients is given to a tile, and which part of the input's gradient
/// it fills.
///   own                what the tile was cut from
///   fixed_step         of the flattened buffer as many elements as the tile has, from the number
///                      of the tile times the elements of the first one on
///   cumulative_step    the same, from the sum of the elements of the tiles before on
enum class TileSlices { own, fixed_step, cumulative_step };

/// A tile whose backward is about to run.
struct TileTurn {
  std::int64_t tile = 0;                                ///< from 0
  std::int64_t pieces = 0;                              ///< tiles that there are
  std::int64_t asked = 0;                               ///< tiles that were asked for
  const std::vector<at::Tensor>* parameters = nullptr;  ///< that require a gradient
};

struct TilingOptions {
  std::int64_t tiles = 1;
  TileBackward backward = TileBackward::backward_per_tile;
  TileAccumulation accumulation = TileAccumulation::in_place;
  /// Whether outputs behind the first one get their gradient; else it is dropped without a word.
  bool carries_all_outputs = true;
  std::vector<at::Generator> generators = {};  ///< that the function draws from
  TileRandom random = TileRandom::restored;
  bool restores_autocast = true;  ///< of the CPU, in backward, to what it was in forward
  TileCut cut = TileCut::even_rows;
  TileSlices slices = TileSlices::own;
  bool refuses_fewer_tiles =
      false;  ///< std::invalid_argument where a cut gives fewer than asked for
  /// Of tiles whose gradients are computed without hooks: whether the input's is looked at before
  /// it is copied. Else an input that a tile does not use is an error of torch's.
  bool guards_input_gradient = true;
  /// With grad_but_last, in place: whether the first gradient of a parameter is copied into
  /// `.grad`. Else it becomes `.grad`, and parameters whose gradients are one tensor add to it in
  /// turn.
  bool clones_first_gradient = false;
  /// Called in backward, before a tile is recomputed and behind its own backward: what a trainer
  /// does around each. Empty: nothing.
  std::function<void(const TileTurn& turn)> before_tile = {};
  std::function<void(const TileTurn& turn)> after_tile = {};
};

/// How many pieces torch.chunk makes of `length` when it is asked for `tiles`.
std::int64_t chunk_pieces(std::int64_t length, std::int64_t tiles);

/// What is tiled: [rows, features] to one or several tensors [rows, ...], row by row independent.
using TileFunction = std::function<std::vector<at::Tensor>(const at::Tensor& rows)>;

/// `function` of `input` [..., features], computed tile by tile without keeping activations, and
/// recomputed tile by tile in backward. Outputs have the leading dimensions of `input`.
///
/// `parameters` are the leaves that `function` uses and that get gradients; those that require none
/// are passed over. Except with explicit inputs, autograd sees `input` alone: where that requires
/// no gradient, nothing is recorded and no parameter gets one.
///
/// Deliberately as the originals: forward without grad, nested backward in backward. Deliberately
/// not, where a cut or slices are not asked for: tiles are as many as asked for, and of gradients
/// they get what is theirs.
///
/// Backward writes the `.grad` of parameters that are no explicit inputs also where it was asked
/// for chosen gradients alone.
///
/// Throws Error (usage) for less than one tile, for more even tiles than rows, of which an input
/// without a feature dimension has none, and for an input without a row.
///
/// Source: "Arctic Long Sequence Training" (Bekman et al., 2025), TiledMLP; the pull requests "Fix
/// DDP marked ready twice for VLMs with CPU offload + TiledMLP" (2026-03) for grad_but_last, and
/// axolotl's #2950, "TiledMLP support for FSDP2" (2025-07), for the chunked sequence and the steps.
std::vector<at::Tensor> tiled(const TileFunction& function,
                              const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                              const TilingOptions& options);

/// The same of a whole module.
at::Tensor tiled(Module& module, const at::Tensor& input, const TilingOptions& options);

/// From now on, calling `module` is tiled: what trainers do that replace a module's forward. Who
/// wraps its calls later is around the tiles and not around each of them.
void tile_calls(Module& module, const TilingOptions& options);

}  // namespace lockstep
