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

std::vector<Variant> variants() {
  return {
      {"zero-2-counting-asked", Role::buggy,
       "ZeRO 2, and the last tile is that of those asked for: each rank steps with its own "
       "gradient",
       "engine=zero stage=2 tile_cut=chunked-rows counts=asked", expect_never_whole},
      {"zero-3-counting-asked", Role::buggy,
       "ZeRO 3, and the last tile is that of those asked for: parameters are never trained",
       "engine=zero stage=3 tile_cut=chunked-rows counts=asked", expect_never_whole},
      {"zero-1-counting-asked", Role::buggy,
       "ZeRO 1, which reduces behind all tiles, and asks for the flag there",
       "engine=zero stage=1 tile_cut=chunked-rows counts=asked", expect_never_whole},
      {"zero-1-counting-pieces", Role::fixed,
       "ZeRO 1, and the last tile is that of those that there are",
       "engine=zero stage=1 tile_cut=chunked-rows counts=pieces"},
      {"zero-2-counting-pieces", Role::fixed,
       "ZeRO 2, and the last tile is that of those that there are",
       "engine=zero stage=2 tile_cut=chunked-rows counts=pieces"},
      {"zero-3-counting-pieces", Role::fixed,
       "ZeRO 3, and the last tile is that of those that there are",
       "engine=zero stage=3 tile_cut=chunked-rows counts=pieces"},
      {"reference", Role::reference, "one process, untiled", "tiles=1 bucket=standard"},
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

}  // namespace

Scenario fewer_tiles_than_asked_leaves_flag_unset() {
  return {
      .id = "fewer-tiles-than-asked-leaves-flag-unset",
      .summary =
          "The code marks the last of the tiles that it asked for, but torch.chunk may give fewer: "
          "ZeRO never reduces the gradient.",
      .provenance =
          {.project = "DeepSpeed, axolotl",
           .link = "TiledMLP (Arctic Long Sequence Training, 2025); axolotl's pull request #2950",
           .kept = "the flag on each parameter, which is set on the last of the tiles asked for",
           .left_out = "a number of tiles that each rank counts for itself, which "
                       "tiles-counted-by-each-rank has"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = claims_before(sharded_claims(), {collectives_match()}),
      .body = train,
  };
}

}  // namespace lockstep
