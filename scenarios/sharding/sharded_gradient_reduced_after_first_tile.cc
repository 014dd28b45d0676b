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

}  // namespace

Scenario sharded_gradient_reduced_after_first_tile() {
  return {
      .summary =
          "Engines that reduce in parameter hooks take the first tile's gradient for the whole: it "
          "is averaged twice or replaced, or parameters are freed too early.",
      .origin = {"DeepSpeed, PyTorch",
                 "TiledMLP (Arctic Long Sequence Training, 2025); torch 2.11's FSDP1",
                 "a backward per tile under ZeRO's hooks and FSDP1's; DeepSpeed's deferring flag",
                 "DeepSpeed's assertions; no_sync under FSDP1: resharded-while-still-needed"},
      .variants =
          {buggy("zero-2-per-tile",
                 "ZeRO 2 without DeepSpeed's assertion: each tile reduces the earlier mean again",
                 "engine=zero stage=2", expect_miscounted),
           buggy("zero-3-per-tile", "ZeRO 3: each tile is reduced and replaces the previous one",
                 "engine=zero stage=3", expect_miscounted),
           latent("zero-1-per-tile", "ZeRO 1 reduces after all tiles", "engine=zero stage=1"),
           buggy("flat-per-tile",
                 "FSDP1, FULL_SHARD: after the first tile, gradient reduced and parameters freed",
                 "engine=fsdp1 wrapped=layer bucket=standard", expect_released),
           latent("flat-whole-per-tile",
                  "FSDP1, NO_SHARD: each tile reduces the sum so far again, whose mean all ranks "
                  "share",
                  "engine=fsdp1 wrapped=layer bucket=standard strategy=no-shard"),
           wrong_fix("zero-2-no-sync",
                     "ZeRO 2: no_sync around all tiles except the last; hooks reduce all the same",
                     "engine=zero stage=2 reduces=in-last-tile", expect_miscounted),
           wrong_fix("zero-3-no-sync",
                     "ZeRO 3: no_sync around all tiles except the last; hooks reduce all the same",
                     "engine=zero stage=3 reduces=in-last-tile", expect_miscounted),
           fixed("zero-2-ready-flag", "ZeRO 2: a flag on each parameter marks the last tile",
                 "engine=zero stage=2 told=by-flag"),
           fixed("zero-3-ready-flag", "ZeRO 3: a flag on each parameter marks the last tile",
                 "engine=zero stage=3 told=by-flag"),
           fixed("zero-2-grad-but-last",
                 "ZeRO 2: gradients of all tiles except the last bypass the hooks",
                 "engine=zero stage=2 tile_backward=grad-but-last"),
           fixed("zero-3-grad-but-last",
                 "ZeRO 3: gradients of all tiles except the last bypass the hooks",
                 "engine=zero stage=3 tile_backward=grad-but-last"),
           fixed("zero-2-explicit-inputs",
                 "ZeRO 2: the parameters are inputs of the tiled function, with one gradient each",
                 "engine=zero stage=2 tile_backward=explicit-inputs"),
           fixed("zero-3-explicit-inputs",
                 "ZeRO 3: the parameters are inputs of the tiled function, with one gradient each",
                 "engine=zero stage=3 tile_backward=explicit-inputs"),
           fixed("flat-explicit-inputs",
                 "FULL_SHARD: the parameters are inputs of the tiled function, with one gradient "
                 "each",
                 "engine=fsdp1 wrapped=layer bucket=standard tile_backward=explicit-inputs"),
           reference("reference", "one process, untiled", "tiles=1 bucket=standard")},
      .worlds = worlds_from(1),
      .axes = {tiles_axis("2"), bucket_axis(), accumulation_axis(), dtype_axis()},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
