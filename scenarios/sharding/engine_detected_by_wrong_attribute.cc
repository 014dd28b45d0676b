// A tiled MLP follows ZeRO's protocol only if it finds ZeRO's marker on its parameters. Stage 3
// uses another marker than stages 1 and 2. A tile that looks for the wrong one finds none. It runs
// without the protocol, or as under an engine without markers, and raises no error.

#include "harness/train/autograd/gradient_accumulator.h"
#include "harness/train/loop/tiled_mlps.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/sharded/tile_readiness.h"

namespace lockstep {

namespace {

constexpr std::int64_t kLength = 8;

/// The attributes that tiles look for on their parameters.
std::vector<std::string> markers_of(const Rank& rank) {
  if (!rank.has("looked_for", "both")) return {rank.text("looked_for")};
  return {zero_attribute::kIndexInGroup, zero_attribute::kId};
}

/// How often the gradient of a tile counts.
/// Under `law=accumulator` the formula is that of tiled-gradient-accumulator-stacks-hooks, without
/// prior gradients: ZeRO 1 removes those of each micro-batch.
/// Otherwise ZeRO 3 reduces each tile by itself: the first micro-batch replaces the last gradient,
/// later ones add to it. If one bucket holds all tiles, each of its entries is the sum of all.
double weight_of(const Cell& cell, std::int64_t batch, std::int64_t tile) {
  const std::int64_t tiles = number_on(cell, "tiles");
  if (is_set(cell, "law", "accumulator")) {
    return 2 * static_cast<double>(tile + 1) / static_cast<double>(tiles);
  }
  if (is_set(cell, "bucket", "small")) return batch > 0 || tile + 1 == tiles ? 1 : 0;
  return batch > 0 ? static_cast<double>(tiles) : 1;
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  TiledMlps mlps(rank);
  if (rank.is_reference()) {
    if (has_axis(cell, "law")) {
      mlps.weigh([&cell](auto batch, auto tile) { return weight_of(cell, batch, tile); });
    }
  } else {
    rank.at_branch();
    TilingOptions tiling = tiling_options(rank);
    if (rank.has("not_found", "accumulated")) {
      accumulate_by_hooks(tiling, {.dtype = dtype_of(cell)});
    }
    tell_readiness(tiling, {.markers = markers_of(rank)});
    mlps.tile(tiling);
    mlps.shard();
  }
  mlps.train({1, kLength});
}

Expectation expect_untreated(const Cell& cell) {
  if (!is_set(cell, "not_found", "accumulated") && !does_zero_miscount_tiles(cell)) {
    return expect_hidden();
  }
  return pinned(
      expect_wrong_shards(),
      {wrong_gradients_of(cell, {"*.mlp.*"}, "tiles are drawn: the variants by-its-law have it")});
}

}  // namespace

Scenario engine_detected_by_wrong_attribute() {
  return {
      .summary =
          "The tiling code looks for another ZeRO stage's marker: it does not detect ZeRO, and "
          "gradients are silently wrong.",
      .origin =
          {"axolotl", "pull request #2950 (merged 2025-07-25)",
           "the markers param_idx_in_group (stages 1 and 2), ds_id (stage 3) and the proposed "
           "ds_zero; the flag that ZeRO's hooks read; the other engines' tiles if no marker is "
           "found",
           "DeepSpeed's assertions: the engine here shows the faults that they guard against"},
      .variants =
          {buggy(
               "zero-2-looked-for-ds-id",
               "ZeRO 2 without DeepSpeed's assertion, stage 3's marker: each tile is reduced alone",
               "engine=zero stage=2 looked_for=ds_id", expect_untreated),
           buggy("zero-3-looked-for-index",
                 "ZeRO 3, the marker of stages 1 and 2: only the last tile's gradient remains",
                 "engine=zero stage=3 looked_for=param_idx_in_group", expect_untreated),
           latent("zero-3-looked-for-index-by-its-law",
                  "ZeRO 3 matches its formula, the last tile of micro-batch 1: no other fault",
                  "engine=zero stage=3 looked_for=param_idx_in_group not_found=untreated")
               .compared_with("reference-zero-3-law"),
           buggy("zero-3-looked-for-ds-param",
                 "ZeRO 3, the first version's marker, which may not be set",
                 "engine=zero stage=3 looked_for=ds_param", expect_untreated),
           wrong_fix("zero-3-looked-for-ds-zero",
                     "ZeRO 3, the flag proposed for all stages, which no DeepSpeed release sets",
                     "engine=zero stage=3 looked_for=ds_zero", expect_untreated),
           latent("zero-1-looked-for-ds-id",
                  "ZeRO 1, stage 3's marker: right, because it reduces after all tiles",
                  "engine=zero stage=1 looked_for=ds_id not_found=untreated"),
           buggy("zero-1-accumulated-by-hooks",
                 "ZeRO 1 not detected: FSDP2's hooks stack, divide, and pass the sum on twice",
                 "engine=zero stage=1 looked_for=ds_id not_found=accumulated", expect_untreated),
           latent(
               "zero-1-accumulated-by-its-law",
               "ZeRO 1 matches the accumulator's formula, (2/N) * sum of (i+1)*g_i: no other fault",
               "engine=zero stage=1 looked_for=ds_id not_found=accumulated")
               .compared_with("reference-accumulator-law"),
           fixed("zero-1-looked-for-both", "ZeRO 1, detected by both markers",
                 "engine=zero stage=1 looked_for=both"),
           fixed("zero-2-looked-for-both", "ZeRO 2, detected by both markers",
                 "engine=zero stage=2 looked_for=both"),
           fixed("zero-3-looked-for-both", "ZeRO 3, detected by both markers",
                 "engine=zero stage=3 looked_for=both"),
           reference("reference", "one process, untiled", "tiles=1 bucket=standard"),
           reference("reference-zero-3-law",
                     "one process that weights tiles by the formula of ZeRO 3", "law=zero-3"),
           reference("reference-accumulator-law",
                     "one process that weights tiles by the formula of the accumulator",
                     "law=accumulator bucket=standard")},
      .worlds = worlds_from(1),
      .axes = {tiles_axis("2"), bucket_axis(), accumulation_axis(), dtype_axis(),
               rank_axis("not_found", {"untreated", "accumulated"}, "untreated")},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
