// Engines that shard by parameter hooks reduce a gradient as soon as autograd has added to it. A
// tiled MLP calls backward() for each tile, so the first tile's gradient counts as complete. The
// effect on later tiles depends on the engine: ZeRO 2 averages the average again, ZeRO 3 keeps the
// last tile, and FSDP1 has already released the parameters.

#include "harness/train/loop/tiled_mlps.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/sharded/fully_shard.h"
#include "harness/train/sharded/tile_readiness.h"

namespace lockstep {

namespace {

constexpr std::int64_t kLength = 8;

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    TilingOptions tiling = tiling_options(rank);
    if (rank.has("told", "by-flag")) tell_readiness(tiling);
    if (rank.has("reduces", "in-last-tile")) sync_in_last_tile(tiling, mlps.engine());
    mlps.tile(tiling);
    mlps.shard();
  }
  mlps.train({1, kLength});
}

Expectation expect_miscounted(const Cell& cell) {
  if (!does_zero_miscount_tiles(cell)) return expect_hidden();
  return pinned(expect_wrong_shards(),
                {wrong_gradients_of(cell, {"*.mlp.*"}, "which tiles count how often is drawn")});
}

/// The next tile cannot make a view of a weight. Without one, the layer's norm cannot read its own.
Expectation expect_released(const Cell& cell) {
  if (cell.world_size == 1) return expect_hidden();  // nothing is sharded
  return expect_error(number_on(cell, "tiles") == 1 ? fully_shard_error::kReleased
                                                    : fully_shard_error::kViewOfReleased);
}

std::vector<Variant> variants() {
  return {
      {"zero-2-per-tile", Role::buggy,
       "ZeRO 2: without DeepSpeed's assertion each tile is reduced, with the mean of those before "
       "in it",
       "engine=zero stage=2", expect_miscounted},
      {"zero-3-per-tile", Role::buggy, "ZeRO 3: each tile is reduced, and replaces the one before",
       "engine=zero stage=3", expect_miscounted},
      {"zero-1-per-tile", Role::latent, "ZeRO 1: gradients are reduced behind all tiles",
       "engine=zero stage=1"},
      {"flat-per-tile", Role::buggy,
       "FSDP1, FULL_SHARD: the first tile is reduced, and the parameters are released",
       "engine=fsdp1 wrapped=layer bucket=standard", expect_released},
      {"flat-whole-per-tile", Role::latent,
       "FSDP1, NO_SHARD: each tile is reduced, with the mean of those before in it, which all "
       "ranks have",
       "engine=fsdp1 wrapped=layer bucket=standard strategy=no-shard"},
      {"zero-2-no-sync", Role::wrong_fix,
       "ZeRO 2: no_sync around all tiles but the last: its hooks reduce in any case",
       "engine=zero stage=2 reduces=in-last-tile", expect_miscounted},
      {"zero-3-no-sync", Role::wrong_fix,
       "ZeRO 3: no_sync around all tiles but the last: its hooks reduce in any case",
       "engine=zero stage=3 reduces=in-last-tile", expect_miscounted},
      {"zero-2-ready-flag", Role::fixed,
       "ZeRO 2: the tiles say by a flag on each parameter which is the last",
       "engine=zero stage=2 told=by-flag"},
      {"zero-3-ready-flag", Role::fixed,
       "ZeRO 3: the tiles say by a flag on each parameter which is the last",
       "engine=zero stage=3 told=by-flag"},
      {"zero-2-grad-but-last", Role::fixed,
       "ZeRO 2: gradients of all tiles but the last are computed without hooks",
       "engine=zero stage=2 tile_backward=grad-but-last"},
      {"zero-3-grad-but-last", Role::fixed,
       "ZeRO 3: gradients of all tiles but the last are computed without hooks",
       "engine=zero stage=3 tile_backward=grad-but-last"},
      {"zero-2-explicit-inputs", Role::fixed,
       "ZeRO 2: the parameters are inputs of the tiled function: one gradient comes out",
       "engine=zero stage=2 tile_backward=explicit-inputs"},
      {"zero-3-explicit-inputs", Role::fixed,
       "ZeRO 3: the parameters are inputs of the tiled function: one gradient comes out",
       "engine=zero stage=3 tile_backward=explicit-inputs"},
      {"flat-explicit-inputs", Role::fixed,
       "FSDP1, FULL_SHARD: the parameters are inputs of the tiled function: one gradient comes out",
       "engine=fsdp1 wrapped=layer bucket=standard tile_backward=explicit-inputs"},
      {"reference", Role::reference, "one process, untiled", "tiles=1 bucket=standard"},
  };
}

std::vector<Axis> axes() {
  return {
      {"tiles", {"1", "2", "4"}, "2"},
      {"bucket", {"small", "standard"}, "small"},
      {"accumulation", {"1", "2"}, "1"},
      {"dtype", {"float32", "float64"}, "float32"},
  };
}

}  // namespace

Scenario sharded_gradient_reduced_after_first_tile() {
  return {
      .id = "sharded-gradient-reduced-after-first-tile",
      .summary =
          "Engines that reduce in hooks of the parameters take the first tile's gradient for "
          "the whole: averaged twice, replaced, or parameters that are gone.",
      .provenance = {.project = "DeepSpeed, PyTorch",
                     .link = "TiledMLP (Arctic Long Sequence Training, 2025); torch 2.11's "
                             "FullyShardedDataParallel",
                     .kept = "tiles with a backward each under ZeRO's hooks and FSDP1's, and the "
                             "flag by which DeepSpeed puts the reduction off",
                     .left_out =
                         "DeepSpeed's assertions, of a parameter that stage 2 reduces twice "
                         "and of one that is twice in a bucket: the engine here shows what "
                         "they guard. What no_sync needs under FSDP1 is "
                         "resharded-while-still-needed's"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
