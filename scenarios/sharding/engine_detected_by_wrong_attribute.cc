// A tiled MLP treats its parameters as ZeRO asks only where it finds ZeRO's marker on them. Stage 3
// marks them otherwise than stages 1 and 2: where the other stage's marker is looked for none is
// found, the tiles run untreated, or as those of an engine without markers, and nobody says so.

#include <ATen/TensorOperators.h>

#include <utility>

#include "harness/train/autograd/gradient_accumulator.h"
#include "harness/train/autograd/tile_weights.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/sharded/tile_readiness.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;
constexpr std::int64_t kLength = 8;

/// What parameters are looked at for.
std::vector<std::string> markers_of(Rank& rank) {
  if (rank.is("zero-1-looked-for-ds-id") || rank.is("zero-1-accumulated-by-hooks") ||
      rank.is("zero-1-accumulated-by-its-law") || rank.is("zero-2-looked-for-ds-id")) {
    return {zero_attribute::kId};
  }
  if (rank.is("zero-3-looked-for-index") || rank.is("zero-3-looked-for-index-by-its-law")) {
    return {zero_attribute::kIndexInGroup};
  }
  if (rank.is("zero-3-looked-for-ds-param")) return {"ds_param"};  // which parameters may not have
  if (rank.is("zero-3-looked-for-ds-zero")) return {"ds_zero"};    // nor this one
  rank.is(rank.cell().variant);
  return {zero_attribute::kIndexInGroup, zero_attribute::kId};
}

/// Whether tiles for which no marker is found add up by hooks, as those for FSDP2 do. The fixed
/// variants have such a path, too, and never take it.
bool is_accumulated(const Cell& cell) {
  return is_about(cell, "zero-1-accumulated") || is_set(cell, "not_found", "accumulated");
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model) {
  return squared_error(rank, batch, model, {1, kLength}, kModel.inputs, 1);
}

/// What the gradient of a tile counts for.
/// The accumulator's: as tiled-gradient-accumulator-stacks-hooks has it, without prior ones, since
/// ZeRO 1 takes the gradients of each micro-batch away.
/// ZeRO 3's, which reduces each tile by itself: in the first micro-batch what is reduced replaces
/// what was before, in later ones it is added. Where all tiles are in one bucket each of their
/// entries has the sum of all.
double weight_of(const Cell& cell, std::int64_t batch, std::int64_t tile) {
  const std::int64_t tiles = number_on(cell, "tiles");
  if (cell.variant == "reference-accumulator-law") {
    return 2 * static_cast<double>(tile + 1) / static_cast<double>(tiles);
  }
  if (is_set(cell, "bucket", "small")) return batch > 0 || tile + 1 == tiles ? 1 : 0;
  return batch > 0 ? static_cast<double>(tiles) : 1;
}

void train_reference(Rank& rank, MlpLayers& model) {
  const Cell& cell = rank.cell();
  std::int64_t batch_index = 0;
  if (rank.is("reference-zero-3-law") || rank.is("reference-accumulator-law")) {
    for (Module* mlp : model.mlps()) {
      weigh_tiles(*mlp, number_on(cell, "tiles"),
                  [&](std::int64_t tile) { return weight_of(cell, batch_index, tile); });
    }
  } else {
    rank.is("reference");
  }
  train_in_micro_batches(rank, model, micro_batch_options(cell),
                         [&](const MicroBatch& batch, auto* /*ddp*/) {
                           batch_index = batch.index;
                           return loss_of(rank, batch, model);
                         });
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  if (cell.role == Role::reference) return train_reference(rank, model);
  TilingOptions tiling{.tiles = number_on(cell, "tiles"), .cut = TileCut::chunked_rows};
  if (is_accumulated(cell)) accumulate_by_hooks(tiling, {.dtype = dtype_of(cell)});
  tell_readiness(tiling, {.markers = markers_of(rank)});
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  Zero zero(model, rank.group(), zero_options(cell));
  train_sharded(rank, zero, micro_batch_options(cell),
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  if (!is_accumulated(cell) && !does_zero_miscount_tiles(cell)) return expect_hidden();
  return pinned(
      expect_wrong_shards(),
      {wrong_gradients_of(cell, {"*.mlp.*"}, "tiles are drawn: the variants by-its-law have it")});
}

std::vector<Variant> variants() {
  return {
      {.name = "zero-2-looked-for-ds-id",
       .role = Role::buggy,
       .summary = "ZeRO 2 without DeepSpeed's assertion, looked for by stage 3's marker: each tile "
                  "is reduced by itself"},
      {.name = "zero-3-looked-for-index",
       .role = Role::buggy,
       .summary = "ZeRO 3, looked for by the marker of stages 1 and 2: the last tile's gradient is "
                  "left"},
      {.name = "zero-3-looked-for-index-by-its-law",
       .role = Role::latent,
       .summary = "ZeRO 3, the same beside its law, the last tile in the first micro-batch: "
                  "nothing else is wrong",
       .reference = "reference-zero-3-law"},
      {.name = "zero-3-looked-for-ds-param",
       .role = Role::buggy,
       .summary = "ZeRO 3, looked for by the marker of the first version, which it may not set"},
      {.name = "zero-3-looked-for-ds-zero",
       .role = Role::wrong_fix,
       .summary = "ZeRO 3, looked for by the flag that was proposed for all stages: it needs a "
                  "release of DeepSpeed that sets it"},
      {.name = "zero-1-looked-for-ds-id",
       .role = Role::latent,
       .summary = "ZeRO 1, looked for by stage 3's marker: it reduces behind all tiles"},
      {.name = "zero-1-accumulated-by-hooks",
       .role = Role::buggy,
       .summary = "ZeRO 1, looked for by stage 3's marker, and tiles added up by FSDP2's hooks "
                  "where it is not found: they stack, divide and hand over twice"},
      {.name = "zero-1-accumulated-by-its-law",
       .role = Role::latent,
       .summary =
           "ZeRO 1, the same beside the accumulator's law, (2/N) * sum of (i+1)*g_i: nothing "
           "else is wrong",
       .reference = "reference-accumulator-law"},
      {.name = "zero-1-looked-for-both",
       .role = Role::fixed,
       .summary = "ZeRO 1, looked for by both markers"},
      {.name = "zero-2-looked-for-both",
       .role = Role::fixed,
       .summary = "ZeRO 2, looked for by both markers"},
      {.name = "zero-3-looked-for-both",
       .role = Role::fixed,
       .summary = "ZeRO 3, looked for by both markers"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, untiled",
       .without = {"tiles", "bucket"}},
      {.name = "reference-zero-3-law",
       .role = Role::reference,
       .summary = "one process that weighs tiles by the law of ZeRO 3"},
      {.name = "reference-accumulator-law",
       .role = Role::reference,
       .summary = "one process that weighs tiles by the law of the accumulator",
       .without = {"bucket"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"tiles", {"1", "2", "4"}, "2"},
      {"bucket", {"small", "standard"}, "small"},
      {"accumulation", {"1", "2"}, "1"},
      {"dtype", {"float32", "float64"}, "float32"},
      {"not_found",
       {"untreated", "accumulated"},
       "untreated",
       {"zero-2-looked-for-ds-id", "zero-3-looked-for-index", "zero-3-looked-for-ds-param",
        "zero-3-looked-for-ds-zero", "zero-1-looked-for-both", "zero-2-looked-for-both",
        "zero-3-looked-for-both"}},
  };
}

}  // namespace

Scenario engine_detected_by_wrong_attribute() {
  return {
      .id = "engine-detected-by-wrong-attribute",
      .summary =
          "Tiles that are to be treated as ZeRO asks look for the marker of another stage: "
          "none is found, and gradients are silently wrong.",
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
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
