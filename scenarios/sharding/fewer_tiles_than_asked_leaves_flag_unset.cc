// Tiles tell ZeRO that a gradient is not whole until the last of those that were asked for.
// torch.chunk may give fewer: the last one never comes, and the reduction is skipped. Asking for
// the maximum over the ranks, so that all gather equally often, brings that about on the ranks
// whose sequences are shorter.

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/sharded/tile_readiness.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;
constexpr std::int64_t kRowsOfATile = 2;  ///< what a tile may have where ranks count their own

/// The shortest sequence has a row for each tile of the longest, even where tiles are even.
constexpr std::int64_t kShortest = 6;
constexpr std::int64_t kMostTilesMore = 3;

/// Whether sequences differ in length between ranks, by a tile each among the last ones.
bool has_own_lengths(const Cell& cell) { return !has_axis(cell, "length"); }

std::int64_t length_of(const Cell& cell, int rank) {
  if (!has_own_lengths(cell)) return number_on(cell, "length");
  const std::int64_t tiles_more =
      std::min<std::int64_t>(cell.world_size - 1 - rank, kMostTilesMore);
  return kShortest + kRowsOfATile * tiles_more;
}

/// As many as a rank needs whose tiles have a limit.
std::int64_t tiles_for(std::int64_t length) { return (length + kRowsOfATile - 1) / kRowsOfATile; }

std::int64_t tiles_of(Rank& rank) {
  const Cell& cell = rank.cell();
  if (has_axis(cell, "tiles")) return number_on(cell, "tiles");
  const std::int64_t own = tiles_for(length_of(cell, rank.rank()));
  if (!is_about(cell, "maximum")) return own;
  return static_cast<std::int64_t>(largest_of_ranks(rank.group(), static_cast<double>(own)));
}

/// How the MLPs are tiled in the cell's variant; where variants part.
TilingOptions tiling_of(Rank& rank) {
  TilingOptions tiling{.tiles = tiles_of(rank), .cut = TileCut::chunked_rows};
  TileReadiness readiness;
  if (rank.is("zero-1-counting-pieces") || rank.is("zero-2-counting-pieces") ||
      rank.is("zero-3-counting-pieces") || rank.is("zero-2-own-tiles")) {
    readiness.counts_pieces = true;
  } else if (rank.is("zero-3-maximum-of-even-tiles")) {
    tiling.cut = TileCut::even_rows;
  } else {
    rank.is(rank.cell().variant);
  }
  tell_readiness(tiling, readiness);
  return tiling;
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model) {
  const std::int64_t length = length_of(rank.cell(), batch.owner);
  return squared_error(rank, batch, model, {1, length}, kModel.inputs, 1);
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  const MicroBatchOptions options = micro_batch_options(cell);
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  if (cell.role == Role::reference) {
    rank.is(cell.variant);
    train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* /*ddp*/) {
      return loss_of(rank, batch, model);
    });
    return;
  }
  const TilingOptions tiling = tiling_of(rank);
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  Zero zero(model, rank.group(), zero_options(cell));
  train_sharded(rank, zero, options,
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

/// The tiles that a rank has, of as many as it needs itself or as rank 0 does, whose sequence is
/// the longest.
std::int64_t pieces_of(const Cell& cell, int rank) {
  const std::int64_t length = length_of(cell, rank);
  return chunk_pieces(length, tiles_for(is_about(cell, "maximum") ? length_of(cell, 0) : length));
}

/// The rank with the fewest tiles is the first whose next gathering is of something else.
Expectation expect_with_own_lengths(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  int fewest = 0;
  for (int rank = 1; rank < cell.world_size; ++rank) {
    if (pieces_of(cell, rank) < pieces_of(cell, fewest)) fewest = rank;
  }
  return expect_ranks_do_not_meet(MismatchFault::size, 1, odd_ranks(cell, fewest));
}

/// Without a reduction ZeRO 3 has nothing to step with, ZeRO 1 and 2 the rank's own gradient.
Expectation expect_never_whole(const Cell& cell) {
  Pin pin = wrong_gradients_of(cell, {"*.mlp.*"}, "a rank's own gradient is drawn");
  if (cell.variant == "zero-3-counting-asked") {
    pin.ratio = about(0);
    pin.why.clear();
  } else {
    pin.cosine = kOtherDirection;
  }
  return pinned(expect_wrong_shards(), {pin});
}

Expectation expect(const Cell& cell) {
  if (has_own_lengths(cell)) return expect_with_own_lengths(cell);
  if (!is_faulty(cell)) return {};
  const std::int64_t tiles = number_on(cell, "tiles");
  const bool comes_to_the_last = chunk_pieces(number_on(cell, "length"), tiles) == tiles;
  return comes_to_the_last ? expect_hidden() : expect_never_whole(cell);
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  const std::vector<std::string> without{"tiles", "length"};
  return {
      {.name = "zero-2-counting-asked",
       .role = Role::buggy,
       .summary = "ZeRO 2, and the last tile is that of those asked for: each rank steps with its "
                  "own gradient"},
      {.name = "zero-3-counting-asked",
       .role = Role::buggy,
       .summary = "ZeRO 3, and the last tile is that of those asked for: parameters are never "
                  "trained"},
      {.name = "zero-1-counting-asked",
       .role = Role::buggy,
       .summary = "ZeRO 1, which reduces behind all tiles, and asks for the flag there"},
      {.name = "zero-1-counting-pieces",
       .role = Role::fixed,
       .summary = "ZeRO 1, and the last tile is that of those that there are"},
      {.name = "zero-2-counting-pieces",
       .role = Role::fixed,
       .summary = "ZeRO 2, and the last tile is that of those that there are"},
      {.name = "zero-3-counting-pieces",
       .role = Role::fixed,
       .summary = "ZeRO 3, and the last tile is that of those that there are"},
      {.name = "zero-2-own-tiles",
       .role = Role::fixed,
       .summary = "ZeRO 2, sequences of different lengths: each rank has as many tiles as it needs",
       .reference = "reference-own-lengths",
       .without = without},
      {.name = "zero-3-own-tiles",
       .role = Role::buggy,
       .summary = "ZeRO 3, sequences of different lengths: ranks gather as often as they have "
                  "tiles, and do not meet",
       .limit = 2s,
       .reference = "reference-own-lengths",
       .without = without},
      {.name = "zero-3-maximum-over-ranks",
       .role = Role::wrong_fix,
       .summary =
           "ZeRO 3, and all ask for the maximum over the ranks: shorter sequences give fewer",
       .limit = 2s,
       .reference = "reference-own-lengths",
       .without = without},
      {.name = "zero-3-maximum-of-even-tiles",
       .role = Role::fixed,
       .summary = "ZeRO 3, and all have the maximum over the ranks, cut evenly",
       .reference = "reference-own-lengths",
       .without = without},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, untiled",
       .without = {"tiles", "bucket"}},
      {.name = "reference-own-lengths",
       .role = Role::reference,
       .summary = "the same with sequences of different lengths",
       .without = {"tiles", "length", "bucket"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"tiles", {"1", "2", "4"}, "4"},
      {"length", {"8", "9"}, "9"},
      {"bucket", {"small", "standard"}, "small"},
      {"accumulation", {"1", "2"}, "1"},
  };
}

std::vector<Claim> claims() {
  std::vector<Claim> claims = sharded_claims();
  claims.push_back(collectives_match());
  return claims;
}

}  // namespace

Scenario fewer_tiles_than_asked_leaves_flag_unset() {
  return {
      .id = "fewer-tiles-than-asked-leaves-flag-unset",
      .summary =
          "Tiles announce the last of those asked for, and torch.chunk gives fewer: ZeRO "
          "never reduces the gradient, or on some ranks only.",
      .provenance =
          {.project = "DeepSpeed, axolotl",
           .link = "TiledMLP (Arctic Long Sequence Training, 2025); axolotl's pull request #2950",
           .kept = "the flag on each parameter, which is set on the last of the tiles "
                   "asked for; a number of tiles from the length of the sequence, of one "
                   "rank or the maximum over the ranks",
           .left_out = "the mixture of experts whose lengths differ by what the router "
                       "chose: lengths are given here"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
