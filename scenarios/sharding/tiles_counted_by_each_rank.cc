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

}  // namespace

Scenario tiles_counted_by_each_rank() {
  return {
      .summary =
          "Each rank derives its number of tiles from its own sequence: ZeRO 3 gathers parameters "
          "per tile, so ranks call different collectives.",
      .origin = {"DeepSpeed, axolotl",
                 "TiledMLP (Arctic Long Sequence Training, 2025); axolotl's pull request #2950",
                 "a number of tiles from the sequence's length: of one rank, or the maximum of all",
                 "the experts whose router makes lengths differ: lengths are given here"},
      .variants =
          {fixed("zero-2-own-tiles",
                 "ZeRO 2 gathers nothing in backward, so ranks may have different numbers of tiles",
                 "engine=zero stage=2 asks_for=own tile_cut=chunked-rows counts=pieces"),
           buggy("zero-3-own-tiles",
                 "ZeRO 3: each rank gathers once per tile, so the calls do not match",
                 "engine=zero stage=3 asks_for=own tile_cut=chunked-rows counts=asked",
                 expect_other_gatherings)
               .compared_with({})
               .with_claims({})
               .hanging(),
           wrong_fix(
               "zero-3-maximum-over-ranks",
               "ZeRO 3, all request the maximum over the ranks: short sequences give fewer tiles",
               "engine=zero stage=3 asks_for=maximum tile_cut=chunked-rows counts=asked",
               expect_other_gatherings)
               .compared_with({})
               .with_claims({})
               .hanging(),
           fixed("zero-3-maximum-of-even-tiles",
                 "ZeRO 3, all have the maximum over the ranks, cut evenly",
                 "engine=zero stage=3 asks_for=maximum tile_cut=even-rows counts=asked"),
           reference("reference", "one process, untiled", "bucket=standard")},
      .axes = {bucket_axis(), accumulation_axis()},
      .claims = claims_before(sharded_claims(), {collectives_match()}),
      .body = train,
  };
}

}  // namespace lockstep
