// Tiles are made around an MLP that is wrapped, so that each calls it, in forward and again in
// backward. FSDP2 counts on one call in a backward: from a module's first gradient to the end of
// the whole backward, a call of it is taken for a recomputation within. The first tile's call has
// its reduction; those of the others have none, and nobody looks again, since the module's group
// has reduced. What is left over stays in the whole parameters, and is added to the next step's.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/nn/mlp_layers.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 4;  // so few that perturbed inputs move the reference
constexpr MlpLayersOptions kModel;

void tile_mlps(MlpLayers& model, const TilingOptions& tiling) {
  for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
}

/// Where variants part: which is around the other, and what is wrapped.
std::unique_ptr<ShardedModel> shard(Rank& rank, MlpLayers& model) {
  TilingOptions tiling{.tiles = number_on(rank.cell(), "tiles")};
  if (rank.is("flat-tiles-around")) {
    auto sharded = std::make_unique<FlatShard>(model, model.mlps(), rank.group());
    tile_mlps(model, tiling);
    return sharded;
  }
  if (rank.is("tiles-inside")) {
    tile_mlps(model, tiling);
    return std::make_unique<FullyShard>(model, model.mlps(), rank.group());
  }
  if (rank.is("layers-wrapped")) {
    tile_mlps(model, tiling);
    return std::make_unique<FullyShard>(model, model.at_level("layer"), rank.group());
  }
  auto sharded = std::make_unique<FullyShard>(model, model.mlps(), rank.group());
  if (rank.is("reduces-in-last-tile")) {
    tiling.before_tile = [&sharded = *sharded](const TileTurn& turn) {
      sharded.set_requires_gradient_sync(turn.tile + 1 == turn.pieces);
    };
  } else {
    rank.is("tiles-around");
  }
  tile_mlps(model, tiling);
  return sharded;
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Module& model) {
  return squared_error(rank, batch, model, {kRows}, kModel.inputs, 1);
}

void train(Rank& rank) {
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  if (rank.is("reference")) {
    return train_in_micro_batches(rank, model, {}, [&](const MicroBatch& batch, auto*) {
      return loss_of(rank, batch, model);
    });
  }
  const std::unique_ptr<ShardedModel> sharded = shard(rank, model);
  train_sharded(rank, *sharded, {},
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  if (cell.variant == "reduces-in-last-tile") {
    return pinned(expect_wrong_shards(SymptomKind::never_trained),
                  {wrong_gradients_of(cell, {"*.mlp.*"}, "there is no gradient")});
  }
  Pin first_tile = wrong_gradients_of(cell, {"*.mlp.*"}, "what the first tile gives is drawn");
  first_tile.cosine = kOtherDirection;
  return pinned(expect_wrong_shards(), {first_tile});
}

std::vector<Variant> variants() {
  return {
      {.name = "tiles-around",
       .role = Role::buggy,
       .summary = "FSDP2: each tile calls the wrapped MLP; only the first one's gradients are "
                  "reduced"},
      {.name = "reduces-in-last-tile",
       .role = Role::wrong_fix,
       .summary = "FSDP2: set_requires_gradient_sync in the last tile alone, which has no "
                  "reduction: the MLP has no gradient at all"},
      {.name = "tiles-inside",
       .role = Role::fixed,
       .summary = "FSDP2: the forward of the MLP is replaced by the tiles: it is called once"},
      {.name = "layers-wrapped",
       .role = Role::fixed,
       .summary = "FSDP2: the layer is wrapped, and the MLP is a part of it"},
      {.name = "flat-tiles-around",
       .role = Role::fixed,
       .summary = "FSDP1: each tile gathers, and its backward completes a gradient and reduces it"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, no tiles: the mean of all shards' gradients",
       .without = {"tiles"}},
  };
}

}  // namespace

Scenario wrapped_module_called_per_tile() {
  return {
      .id = "wrapped-module-called-per-tile",
      .summary =
          "Tiles call a module that FSDP2 shards, again and again in one backward: of all "
          "tiles but the first the gradients are never reduced.",
      .provenance = {.project = "PyTorch",
                     .link = "fully_shard of torch 2.11, observed; held against Python's in "
                             "tests/parity/fully_shard_parity.py (tiles-around)",
                     .kept = "a tiled function around a wrapped MLP",
                     .left_out = "attention, mixed precision, streams"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = {{"tiles", {"1", "2", "4"}, "2"}, {"dtype", {"float32", "float64"}, "float32"}},
      .variants = variants(),
      .claims = sharded_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
