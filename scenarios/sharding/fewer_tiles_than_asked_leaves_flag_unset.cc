// Tiles tell ZeRO that a gradient is incomplete until the last requested tile. torch.chunk may
// return fewer tiles: the last one never comes, and the reduction is skipped.

#include "harness/train/loop/tiled_mlps.h"
#include "harness/train/sharded/tile_readiness.h"

namespace lockstep {

namespace {

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    TilingOptions tiling = tiling_options(rank);
    tell_readiness(tiling, {.counts_pieces = rank.has("counts", "pieces")});
    mlps.tile(tiling);
    mlps.shard();
  }
  mlps.train({1, rank.number("length")});
}

/// If the last tile comes, all is right. Otherwise nothing is reduced: ZeRO 3 has no gradient to
/// step with, ZeRO 1 and 2 step with the rank's own.
Expectation expect_never_whole(const Cell& cell) {
  const std::int64_t tiles = number_on(cell, "tiles");
  if (chunk_pieces(number_on(cell, "length"), tiles) == tiles) return expect_hidden();
  Pin pin = wrong_gradients_of(cell, {"*.mlp.*"}, "a rank's own gradient is drawn");
  if (is_set(cell, "stage", "3")) {
    pin.ratio = about(0);
    pin.why.clear();
  } else {
    pin.cosine = kOtherDirection;
  }
  return pinned(expect_wrong_shards(), {pin});
}

}  // namespace

Scenario fewer_tiles_than_asked_leaves_flag_unset() {
  return {
      .summary =
          "The code marks the last of the requested tiles, but torch.chunk may return fewer: ZeRO "
          "never reduces the gradient.",
      .origin = {"DeepSpeed, axolotl",
                 "TiledMLP (Arctic Long Sequence Training, 2025); axolotl's pull request #2950",
                 "the flag on each parameter, which is set on the last of the tiles asked for",
                 "a number of tiles per rank: tiles-counted-by-each-rank"},
      .variants =
          {buggy("zero-2-counting-asked",
                 "ZeRO 2 waits for the last requested tile: each rank steps with its own gradient",
                 "engine=zero stage=2 tile_cut=chunked-rows counts=asked", expect_never_whole),
           buggy("zero-3-counting-asked",
                 "ZeRO 3 waits for the last requested tile: parameters are never trained",
                 "engine=zero stage=3 tile_cut=chunked-rows counts=asked", expect_never_whole),
           buggy("zero-1-counting-asked",
                 "ZeRO 1 reduces after all tiles, but reads the flag there, too",
                 "engine=zero stage=1 tile_cut=chunked-rows counts=asked", expect_never_whole),
           fixed("zero-1-counting-pieces", "ZeRO 1; the flag is set in the last actual tile",
                 "engine=zero stage=1 tile_cut=chunked-rows counts=pieces"),
           fixed("zero-2-counting-pieces", "ZeRO 2; the flag is set in the last actual tile",
                 "engine=zero stage=2 tile_cut=chunked-rows counts=pieces"),
           fixed("zero-3-counting-pieces", "ZeRO 3; the flag is set in the last actual tile",
                 "engine=zero stage=3 tile_cut=chunked-rows counts=pieces"),
           reference("reference", "one process, untiled", "tiles=1 bucket=standard")},
      .axes = {tiles_axis("4"), {"length", {"8", "9"}, "9"}, bucket_axis(), accumulation_axis()},
      .claims = claims_before(sharded_claims(), {collectives_match()}),
      .body = train,
  };
}

}  // namespace lockstep
