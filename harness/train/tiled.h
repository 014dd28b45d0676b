#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/train/module.h"

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

struct TilingOptions {
  std::int64_t tiles = 1;
  TileBackward backward = TileBackward::backward_per_tile;
  TileAccumulation accumulation = TileAccumulation::in_place;
  /// Whether outputs behind the first one get their gradient; else it is dropped without a word.
  bool carries_all_outputs = true;
  std::vector<at::Generator> generators = {};  ///< that the function draws from
  TileRandom random = TileRandom::restored;
  bool restores_autocast = true;  ///< of the CPU, in backward, to what it was in forward
  /// Called in backward, before a tile (from 0) is recomputed and behind its own backward: what a
  /// trainer does around each. Empty: nothing.
  std::function<void(std::int64_t tile)> before_tile = {};
  std::function<void(std::int64_t tile)> after_tile = {};
};

/// What is tiled: [rows, features] to one or several tensors [rows, ...], row by row independent.
using TileFunction = std::function<std::vector<at::Tensor>(const at::Tensor& rows)>;

/// `function` of `input` [..., features], computed tile by tile without keeping activations, and
/// recomputed tile by tile in backward. Leading dimensions count as rows. Outputs have the leading
/// dimensions of `input`.
///
/// `parameters` are the leaves that `function` uses and that get gradients; those that require none
/// are passed over. Except with explicit inputs, autograd sees `input` alone: where that requires
/// no gradient, nothing is recorded and no parameter gets one.
///
/// Deliberately as the originals: forward without grad, nested backward in backward, flattened
/// rows. Deliberately not: tiles differ by at most one row and are always as many as asked for; a
/// tile's input gradient is its own tensor and not a slice of a prepared one.
///
/// Backward writes the `.grad` of parameters that are no explicit inputs also where it was asked
/// for chosen gradients alone.
///
/// Throws Error (usage) for less than one tile and for more tiles than rows, of which an input
/// without a feature dimension has none.
///
/// Source: "Arctic Long Sequence Training" (Bekman et al., 2025), TiledMLP; the pull request "Fix
/// DDP marked ready twice for VLMs with CPU offload + TiledMLP" (2026-03) for grad_but_last.
std::vector<at::Tensor> tiled(const TileFunction& function,
                              const std::vector<at::Tensor>& parameters, const at::Tensor& input,
                              const TilingOptions& options);

/// The same of a whole module.
at::Tensor tiled(Module& module, const at::Tensor& input, const TilingOptions& options);

/// From now on, calling `module` is tiled: what trainers do that replace a module's forward. Who
/// wraps its calls later is around the tiles and not around each of them.
void tile_calls(Module& module, const TilingOptions& options);

}  // namespace lockstep
