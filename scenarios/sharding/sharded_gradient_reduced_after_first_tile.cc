// Engines that shard by hooks of the parameters reduce a gradient when autograd has added to it.
// A tiled MLP calls backward() for each tile: the first one's gradient is taken for the whole. What
// becomes of the others depends on the engine: ZeRO 2 averages the average once more, ZeRO 3 keeps
// the last, FSDP1 has released the parameters that the next tile needs.

#include <ATen/TensorOperators.h>

#include <memory>
#include <utility>

#include "harness/train/loop/sharded_training.h"
#include "harness/train/loop/zero_cells.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"
#include "harness/train/sharded/tile_readiness.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;
constexpr std::int64_t kLength = 8;

bool is_zero(const Cell& cell) { return cell.variant.rfind("zero-", 0) == 0; }

/// How the MLPs are tiled in the cell's variant; where variants part. The engine is made later.
TilingOptions tiling_of(Rank& rank, const std::unique_ptr<ShardedModel>& engine) {
  TilingOptions tiling{.tiles = number_on(rank.cell(), "tiles")};
  if (rank.is("zero-2-ready-flag") || rank.is("zero-3-ready-flag")) {
    tell_readiness(tiling);
  } else if (rank.is("zero-2-grad-but-last") || rank.is("zero-3-grad-but-last")) {
    tiling.backward = TileBackward::grad_but_last;
  } else if (rank.is("zero-2-explicit-inputs") || rank.is("zero-3-explicit-inputs") ||
             rank.is("flat-explicit-inputs")) {
    tiling.backward = TileBackward::explicit_inputs;
  } else if (rank.is("zero-2-no-sync") || rank.is("zero-3-no-sync")) {
    tiling.before_tile = [&engine](const TileTurn& turn) {
      engine->set_requires_gradient_sync(turn.tile + 1 == turn.pieces);
    };
  } else {
    rank.is(rank.cell().variant);
  }
  return tiling;
}

std::unique_ptr<ShardedModel> shard(Rank& rank, MlpLayers& model) {
  const Cell& cell = rank.cell();
  if (is_zero(cell)) {
    return std::make_unique<Zero>(model, rank.group(), zero_options(cell));
  }
  const bool is_whole = cell.variant == "flat-whole-per-tile";
  return std::make_unique<FlatShard>(model, model.at_level("layer"), rank.group(),
                                     is_whole ? FlatStrategy::no_shard : FlatStrategy::full_shard);
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model) {
  return squared_error(rank, batch, model, {1, kLength}, kModel.inputs, 1);
}

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  const MicroBatchOptions options = micro_batch_options(cell);
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  if (rank.is("reference")) {
    return train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto*) {
      return loss_of(rank, batch, model);
    });
  }
  std::unique_ptr<ShardedModel> engine;
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling_of(rank, engine));
  engine = shard(rank, model);
  train_sharded(rank, *engine, options,
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  const bool is_one_tile = number_on(cell, "tiles") == 1;
  if (!is_zero(cell)) {
    if (cell.world_size == 1) return expect_hidden();  // nothing is sharded
    // The next tile makes a view of a weight; the layer's norm reads its own.
    return expect_error(is_one_tile ? fully_shard_error::kReleased
                                    : fully_shard_error::kViewOfReleased);
  }
  if (!does_zero_miscount_tiles(cell)) return expect_hidden();
  return pinned(expect_wrong_shards(),
                {wrong_gradients_of(cell, {"*.mlp.*"}, "which tiles count how often is drawn")});
}

Variant zero(int stage, const std::string& name, Role role, const std::string& what) {
  return {.name = "zero-" + std::to_string(stage) + "-" + name,
          .role = role,
          .summary = "ZeRO " + std::to_string(stage) + ": " + what};
}

std::vector<Variant> variants() {
  const std::string flag = "the tiles say by a flag on each parameter which is the last";
  const std::string but_last = "gradients of all tiles but the last are computed without hooks";
  const std::string inputs =
      "the parameters are inputs of the tiled function: one gradient comes out";
  const std::string no_sync = "no_sync around all tiles but the last: its hooks reduce in any case";
  const std::vector<std::string> without{"bucket"};
  return {
      zero(2, "per-tile", Role::buggy,
           "without DeepSpeed's assertion each tile is reduced, with the mean of those before in "
           "it"),
      zero(3, "per-tile", Role::buggy, "each tile is reduced, and replaces the one before"),
      zero(1, "per-tile", Role::latent, "gradients are reduced behind all tiles"),
      {.name = "flat-per-tile",
       .role = Role::buggy,
       .summary = "FSDP1, FULL_SHARD: the first tile is reduced, and the parameters are released",
       .without = without},
      {.name = "flat-whole-per-tile",
       .role = Role::latent,
       .summary =
           "FSDP1, NO_SHARD: each tile is reduced, with the mean of those before in it, which "
           "all ranks have",
       .without = without},
      zero(2, "no-sync", Role::wrong_fix, no_sync),
      zero(3, "no-sync", Role::wrong_fix, no_sync),
      zero(2, "ready-flag", Role::fixed, flag),
      zero(3, "ready-flag", Role::fixed, flag),
      zero(2, "grad-but-last", Role::fixed, but_last),
      zero(3, "grad-but-last", Role::fixed, but_last),
      zero(2, "explicit-inputs", Role::fixed, inputs),
      zero(3, "explicit-inputs", Role::fixed, inputs),
      {.name = "flat-explicit-inputs",
       .role = Role::fixed,
       .summary = "FSDP1, FULL_SHARD: " + inputs,
       .without = without},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, untiled",
       .without = {"tiles", "bucket"}},
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
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
