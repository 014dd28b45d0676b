#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/train/nn/module.h"

namespace lockstep {

/// How the backward of a tiled function obtains the gradients of its parameters.
///   backward_per_tile   one backward() per tile, as in the first tiled MLPs: every gradient hook
///                       of a parameter runs once per tile
///   grad_but_last       gradients of all tiles but the last are computed without hooks and added
///                       to `.grad`, then backward() for the last tile: hooks run once, if the last
///                       tile uses the parameter
///   explicit_inputs     the parameters are inputs of the function: their gradients are summed over
///                       the tiles and returned once, like those of any other function
enum class TileBackward { backward_per_tile, grad_but_last, explicit_inputs };

/// Location of earlier tiles' gradients, and of the previous `.grad`, while a tile's backward runs.
/// Explicit inputs do not touch `.grad` and ignore it.
///   in_place    in `.grad`
///   set_aside   separate from it. With backward_per_tile every tile's gradient is taken out of an
///               empty `.grad`, and the sum is put there at the end. With grad_but_last the last
///               tile but one puts the sum there: a single tile puts nothing back, and the previous
///               `.grad` is lost.
enum class TileAccumulation { in_place, set_aside };

/// State of the random generators while a tile is recomputed.
///   restored         as when forward computed that tile
///   drawn_anew       unchanged, whatever it is
///   first_for_all    as when forward computed the first tile
enum class TileRandom { restored, drawn_anew, first_for_all };

/// How the input is cut into tiles.
///   even_rows          leading dimensions count as rows; tiles differ by at most one row, and
///                      their number is the requested one
///   chunked_rows       torch.chunk of the rows: all tiles but the last have ceil(rows / tiles) of
///                      them, so there may be fewer tiles than requested
///   chunked_sequence   torch.chunk along the last dimension but one: a tile has its part of the
///                      sequence of every batch
enum class TileCut { even_rows, chunked_rows, chunked_sequence };

/// Which part of the outputs' gradients a tile receives, and which part of the input's gradient it
/// fills.
///   own                the part that the tile was cut from
///   fixed_step         as many elements of the flattened buffer as the tile has, starting at the
///                      tile's number times the elements of the first tile
///   cumulative_step    the same, starting at the total of the elements of earlier tiles
enum class TileSlices { own, fixed_step, cumulative_step };

/// A tile whose backward is about to run.
struct TileTurn {
  std::int64_t tile = 0;                                ///< from 0
  std::int64_t pieces = 0;                              ///< existing tiles
  std::int64_t asked = 0;                               ///< requested tiles
  const std::vector<at::Tensor>* parameters = nullptr;  ///< that require a gradient
};

struct TilingOptions {
  std::int64_t tiles = 1;
  TileBackward backward = TileBackward::backward_per_tile;
  TileAccumulation accumulation = TileAccumulation::in_place;
  /// Whether outputs after the first get their gradient; otherwise it is dropped silently.
  bool carries_all_outputs = true;
  std::vector<at::Generator> generators = {};  ///< that the function draws from
  TileRandom random = TileRandom::restored;
  bool restores_autocast = true;  ///< CPU autocast in backward, to its state in forward
  TileCut cut = TileCut::even_rows;
  TileSlices slices = TileSlices::own;
  bool refuses_fewer_tiles = false;  ///< std::invalid_argument if a cut gives fewer than requested
  /// For tiles whose gradients are computed without hooks: whether the input's gradient is checked
  /// before it is copied. Otherwise an input that a tile does not use raises torch's error.
  bool guards_input_gradient = true;
  /// With grad_but_last, in place: whether the first gradient of a parameter is copied into
  /// `.grad`. Otherwise it becomes `.grad` itself, and parameters that share one gradient tensor
  /// all add to it.
  bool clones_first_gradient = false;
  /// Called in backward before each tile is recomputed, for a trainer's work around the tile.
  /// Empty: nothing.
  std::function<void(const TileTurn& turn)> before_tile = {};
  std::function<void(const TileTurn& turn)> after_tile = {};
};

/// Number of pieces of torch.chunk for `length` with `tiles` requested.
std::int64_t chunk_pieces(std::int64_t length, std::int64_t tiles);

/// The function to tile: [rows, features] to one or several tensors [rows, ...], each row
/// independent.
using TileFunction = std::function<std::vector<at::Tensor>(const at::Tensor& rows)>;

/// `function` of `input` [..., features], computed tile by tile without storing activations, and
/// recomputed tile by tile in backward. Outputs have the leading dimensions of `input`.
///
/// `parameters` are the leaves used by `function` that get gradients; those that require none are
/// skipped. Except with explicit inputs, autograd sees only `input`. If that requires no gradient,
/// nothing is recorded and no parameter gets one.
///
/// Intentionally like the originals: forward without grad, nested backward in backward.
/// Intentionally different, unless a cut or slices are chosen: the number of tiles is the requested
/// one. Each tile also gets exactly its own part of the gradients.
///
/// Backward writes the `.grad` of parameters that are not explicit inputs, even if only chosen
/// gradients were requested.
///
/// Throws Error (usage) for less than one tile, for more even tiles than rows (an input without a
/// feature dimension has none), and for an input without rows.
///
/// Source: "Arctic Long Sequence Training" (Bekman et al., 2025), TiledMLP; the pull requests "Fix
/// DDP marked ready twice for VLMs with CPU offload + TiledMLP" (2026-03) for grad_but_last, and
/// axolotl's #2950, "TiledMLP support for FSDP2" (2025-07), for the chunked sequence and the steps.
std::vector<at::Tensor> tiled(const TileFunction& function,
                              const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                              const TilingOptions& options);

/// The same for a whole module.
at::Tensor tiled(Module& module, const at::Tensor& input, const TilingOptions& options);

/// From now on, calls of `module` are tiled, like in trainers that replace a module's forward. A
/// later wrapper runs around all tiles together, not around each.
void tile_calls(Module& module, const TilingOptions& options);

}  // namespace lockstep
