// Each rank cuts its sequence into as many tiles as it needs. ZeRO 3 gathers parameters for each
// tile, so ranks with other lengths gather a different number of times, and their calls no longer
// match. Taking the maximum over the ranks fails if torch.chunk gives a shorter sequence fewer
// tiles.

#include <algorithm>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/tiled_mlps.h"
#include "harness/train/sharded/tile_readiness.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;
constexpr std::int64_t kRowsOfATile = 2;

/// The shortest sequence has at least one row for each tile of the longest.
constexpr std::int64_t kShortest = 6;
constexpr std::int64_t kMostTilesMore = 3;

/// Among the last ranks, lengths differ by one tile each. Rank 0 has the longest sequence.
std::int64_t length_of(const Cell& cell, int rank) {
  const std::int64_t tiles_more =
      std::min<std::int64_t>(cell.world_size - 1 - rank, kMostTilesMore);
  return kShortest + kRowsOfATile * tiles_more;
}

/// Tiles of at most `kRowsOfATile` rows.
std::int64_t tiles_for(std::int64_t length) { return (length + kRowsOfATile - 1) / kRowsOfATile; }

std::int64_t asked_tiles(Rank& rank) {
  const std::int64_t own = tiles_for(length_of(rank.cell(), rank.rank()));
  if (!rank.has("asks_for", "maximum")) return own;
  return static_cast<std::int64_t>(largest_of_ranks(rank.group(), static_cast<double>(own)));
}

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    TilingOptions tiling = tiling_options(rank);
    tiling.tiles = asked_tiles(rank);
    tell_readiness(tiling, {.counts_pieces = rank.has("counts", "pieces")});
    mlps.tile(tiling);
    mlps.shard();
  }
  mlps.train([&](const MicroBatch& batch, const Module::Forward& forward) {
    const std::int64_t length = length_of(rank.cell(), batch.owner);
    return squared_error(rank, batch, forward, {1, length}, kModel.inputs, 1);
  });
}

/// The number of tiles that torch.chunk gives a rank.
std::int64_t pieces_of(const Cell& cell, int rank) {
  const std::int64_t length = length_of(cell, rank);
  const bool is_maximum = is_set(cell, "asks_for", "maximum");
  return chunk_pieces(length, tiles_for(is_maximum ? length_of(cell, 0) : length));
}

/// The rank with the fewest tiles is the first to gather other parameters than the rest.
Expectation expect_other_gatherings(const Cell& cell) {
  int fewest = 0;
  for (int rank = 1; rank < cell.world_size; ++rank) {
    if (pieces_of(cell, rank) < pieces_of(cell, fewest)) fewest = rank;
  }
  return expect_ranks_do_not_meet(MismatchFault::size, 1, odd_ranks(cell, fewest));
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {"zero-2-own-tiles", Role::fixed,
       "ZeRO 2, which gathers nothing in backward: each rank has as many tiles as it needs",
       "engine=zero stage=2 asks_for=own tile_cut=chunked-rows counts=pieces"},
      {"zero-3-own-tiles",
       Role::buggy,
       "ZeRO 3: ranks gather as often as they have tiles, and do not meet",
       "engine=zero stage=3 asks_for=own tile_cut=chunked-rows counts=asked",
       expect_other_gatherings,
       {},
       {},
       2s},
      {"zero-3-maximum-over-ranks",
       Role::wrong_fix,
       "ZeRO 3, and all ask for the maximum over the ranks: shorter sequences give fewer",
       "engine=zero stage=3 asks_for=maximum tile_cut=chunked-rows counts=asked",
       expect_other_gatherings,
       {},
       {},
       2s},
      {"zero-3-maximum-of-even-tiles", Role::fixed,
       "ZeRO 3, and all have the maximum over the ranks, cut evenly",
       "engine=zero stage=3 asks_for=maximum tile_cut=even-rows counts=asked"},
      {"reference", Role::reference, "one process, untiled", "bucket=standard"},
  };
}

}  // namespace

Scenario tiles_counted_by_each_rank() {
  return {
      .id = "tiles-counted-by-each-rank",
      .summary =
          "Each rank derives its number of tiles from its own sequence: ZeRO 3 gathers parameters "
          "for each tile, so ranks with other lengths make other calls.",
      .provenance =
          {.project = "DeepSpeed, axolotl",
           .link = "TiledMLP (Arctic Long Sequence Training, 2025); axolotl's pull request #2950",
           .kept = "a number of tiles from the length of the sequence, of one rank or the maximum "
                   "over the ranks; until 0.1.0 in fewer-tiles-than-asked-leaves-flag-unset",
           .left_out = "the mixture of experts whose lengths differ by what the router chose: "
                       "lengths are given here"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = {{"bucket", {"small", "standard"}, "small"}, {"accumulation", {"1", "2"}, "1"}},
      .variants = variants(),
      .claims = claims_before(sharded_claims(), {collectives_match()}),
      .body = train,
  };
}

}  // namespace lockstep
