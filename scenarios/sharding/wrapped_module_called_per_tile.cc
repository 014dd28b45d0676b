// Tiles are made around an MLP that is wrapped, so that each calls it, in forward and again in
// backward. FSDP2 counts on one call in a backward: from a module's first gradient to the end of
// the whole backward, a call of it is taken for a recomputation within. The first tile's call has
// its reduction; those of the others have none, and nobody looks again, since the module's group
// has reduced. What is left over stays in the whole parameters, and is added to the next step's.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "harness/train/flat_shard.h"
#include "harness/train/fully_shard.h"
#include "harness/train/micro_batches.h"
#include "harness/train/mlp_layers.h"
#include "harness/train/optimizer.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"
#include "harness/train/sharded_steps.h"
#include "harness/train/tiled.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 4;
constexpr double kLearningRate = 0.05;

void tile_mlps(MlpLayers& model, const TilingOptions& tiling) {
  for (const auto& layer : model.layers) tile_calls(*layer->mlp, tiling);
}

std::vector<Module*> mlps_of(const MlpLayers& model) {
  std::vector<Module*> mlps;
  for (const auto& layer : model.layers) mlps.push_back(layer->mlp.get());
  return mlps;
}

std::vector<Module*> layers_of(const MlpLayers& model) {
  std::vector<Module*> layers;
  for (const auto& layer : model.layers) layers.push_back(layer.get());
  return layers;
}

/// Where variants part: which is around the other, and what is wrapped.
std::unique_ptr<ShardedModel> shard(Rank& rank, MlpLayers& model) {
  TilingOptions tiling{.tiles = number_on(rank.cell(), "tiles")};
  if (rank.is("flat-tiles-around")) {
    auto sharded = std::make_unique<FlatShard>(model, mlps_of(model), rank.group());
    tile_mlps(model, tiling);
    return sharded;
  }
  if (rank.is("tiles-inside")) {
    tile_mlps(model, tiling);
    return std::make_unique<FullyShard>(model, mlps_of(model), rank.group());
  }
  if (rank.is("layers-wrapped")) {
    tile_mlps(model, tiling);
    return std::make_unique<FullyShard>(model, layers_of(model), rank.group());
  }
  auto sharded = std::make_unique<FullyShard>(model, mlps_of(model), rank.group());
  if (rank.is("reduces-in-last-tile")) {
    tiling.before_tile = [&sharded = *sharded, last = tiling.tiles - 1](std::int64_t tile) {
      sharded.set_requires_gradient_sync(tile == last);
    };
  } else {
    rank.is("tiles-around");
  }
  tile_mlps(model, tiling);
  return sharded;
}

at::Tensor loss_of(Rank& rank, MlpLayers& model, int owner) {
  const at::Tensor input = sharded_input(rank, owner, 1'000'000, {kRows, MlpLayers::kInputs});
  const at::Tensor target = sharded_input(rank, owner, 2'000'000, {kRows, 1});
  return (model(input) - target).pow(2).mean();
}

void train(Rank& rank) {
  MlpLayers model(cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  std::unique_ptr<ShardedModel> sharded;
  if (!rank.is("reference")) sharded = shard(rank, model);
  Sgd optimizer(sharded ? sharded->parameters() : model.parameters(), kLearningRate);
  train_sharded_steps(rank, {.model = model,
                             .sharded = sharded.get(),
                             .loss_of = [&](int owner) { return loss_of(rank, model, owner); },
                             .step = [&] { optimizer.step(); }});
}

Expectation expect(const Cell& cell) {
  const bool is_wrong = cell.role == Role::buggy || cell.role == Role::wrong_fix;
  if (!is_wrong || number_on(cell, "tiles") == 1) return {};
  return expect_wrong_gradients();
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
                             "tests/python/fully_shard_parity.py (tiles-around)",
                     .kept = "a tiled function around a wrapped MLP",
                     .left_out = "attention, mixed precision, streams"},
      .worlds = {1, 2, 3, 4},
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
