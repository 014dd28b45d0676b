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

std::vector<Variant> variants() {
  return {
      {"zero-2-looked-for-ds-id", Role::buggy,
       "ZeRO 2 without DeepSpeed's assertion, looked for by stage 3's marker: each tile is reduced "
       "by itself",
       "engine=zero stage=2 looked_for=ds_id", expect_untreated},
      {"zero-3-looked-for-index", Role::buggy,
       "ZeRO 3, looked for by the marker of stages 1 and 2: the last tile's gradient is left",
       "engine=zero stage=3 looked_for=param_idx_in_group", expect_untreated},
      {"zero-3-looked-for-index-by-its-law",
       Role::latent,
       "ZeRO 3, the same beside its law, the last tile in the first micro-batch: nothing else is "
       "wrong",
       "engine=zero stage=3 looked_for=param_idx_in_group not_found=untreated",
       {},
       "reference-zero-3-law"},
      {"zero-3-looked-for-ds-param", Role::buggy,
       "ZeRO 3, looked for by the marker of the first version, which it may not set",
       "engine=zero stage=3 looked_for=ds_param", expect_untreated},
      {"zero-3-looked-for-ds-zero", Role::wrong_fix,
       "ZeRO 3, looked for by the flag that was proposed for all stages: it needs a release of "
       "DeepSpeed that sets it",
       "engine=zero stage=3 looked_for=ds_zero", expect_untreated},
      {"zero-1-looked-for-ds-id", Role::latent,
       "ZeRO 1, looked for by stage 3's marker: it reduces behind all tiles",
       "engine=zero stage=1 looked_for=ds_id not_found=untreated"},
      {"zero-1-accumulated-by-hooks", Role::buggy,
       "ZeRO 1, looked for by stage 3's marker, and tiles added up by FSDP2's hooks where it is "
       "not found: they stack, divide and hand over twice",
       "engine=zero stage=1 looked_for=ds_id not_found=accumulated", expect_untreated},
      {"zero-1-accumulated-by-its-law",
       Role::latent,
       "ZeRO 1, the same beside the accumulator's law, (2/N) * sum of (i+1)*g_i: nothing else is "
       "wrong",
       "engine=zero stage=1 looked_for=ds_id not_found=accumulated",
       {},
       "reference-accumulator-law"},
      {"zero-1-looked-for-both", Role::fixed, "ZeRO 1, looked for by both markers",
       "engine=zero stage=1 looked_for=both"},
      {"zero-2-looked-for-both", Role::fixed, "ZeRO 2, looked for by both markers",
       "engine=zero stage=2 looked_for=both"},
      {"zero-3-looked-for-both", Role::fixed, "ZeRO 3, looked for by both markers",
       "engine=zero stage=3 looked_for=both"},
      {"reference", Role::reference, "one process, untiled", "tiles=1 bucket=standard"},
      {"reference-zero-3-law", Role::reference,
       "one process that weighs tiles by the law of ZeRO 3", "law=zero-3"},
      {"reference-accumulator-law", Role::reference,
       "one process that weighs tiles by the law of the accumulator",
       "law=accumulator bucket=standard"},
  };
}

std::vector<Axis> axes() {
  return {
      {"tiles", {"1", "2", "4"}, "2"},
      {"bucket", {"small", "standard"}, "small"},
      {"accumulation", {"1", "2"}, "1"},
      {"dtype", {"float32", "float64"}, "float32"},
      {.name = "not_found",
       .values = {"untreated", "accumulated"},
       .default_value = "untreated",
       .in_reference = false},
  };
}

}  // namespace

Scenario engine_detected_by_wrong_attribute() {
  return {
      .id = "engine-detected-by-wrong-attribute",
      .summary =
          "The tiling code detects ZeRO by the marker of another stage: it finds none, and "
          "gradients are silently wrong.",
      .provenance = {.project = "axolotl",
                     .link = "pull request #2950 (merged 2025-07-25)",
                     .kept = "the markers param_idx_in_group (stages 1 and 2) and ds_id (stage 3), "
                             "which were found one after the other in review; the proposed "
                             "ds_zero, which no engine sets; the flag on each "
                             "parameter that ZeRO's hooks read; the tiles of other engines, that "
                             "are taken where no marker is found",
                     .left_out =
                         "DeepSpeed's assertions, of a parameter that stage 2 reduces twice "
                         "and of one that is twice in a bucket: the engine here shows what "
                         "they guard"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
