// The forward of an MLP is replaced by one that computes it tile by tile, and again in backward. A
// sharded engine gathers parameters where a wrapped module is called and backward comes to it,
// which is once, whatever the number of tiles. Who reduces and releases for each tile by hand, to
// have the memory, leaves the next tile without parameters; and where the wrapped module is not the
// MLP but the layer or the model, the rest of its backward without any, whoever gathers for each
// tile. FSDP1 does it by itself: the hook of its flat parameter releases behind the first tile.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
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

bool is_last(const TileTurn& turn) { return turn.tile + 1 == turn.pieces; }

TilingOptions tiling_of(const Cell& cell) { return {.tiles = number_on(cell, "tiles")}; }

/// What the model trains with: one of them.
struct Engine {
  std::unique_ptr<FullyShard> fully;
  std::unique_ptr<FlatShard> flat;

  ShardedModel& any() { return fully ? static_cast<ShardedModel&>(*fully) : *flat; }
};

/// Where variants part: what is done around the tiles of an MLP in `unit`, under FSDP2. The engine
/// is made later.
TilingOptions deferral(Rank& rank, const std::unique_ptr<FullyShard>& sharded, const Module& unit) {
  TilingOptions tiling = tiling_of(rank.cell());
  if (rank.is("plain")) return tiling;
  if (rank.is("reshards-behind-each-tile")) {
    tiling.before_tile = [&sharded](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
    };
    tiling.after_tile = [&sharded, &unit](const TileTurn& /*turn*/) { sharded->reshard(unit); };
  } else if (rank.is("gathers-for-each-tile")) {
    tiling.before_tile = [&sharded, &unit](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
      sharded->unshard(unit);
    };
    tiling.after_tile = [&sharded, &unit](const TileTurn& /*turn*/) { sharded->reshard(unit); };
  } else if (rank.is("reshards-behind-last-tile")) {
    tiling.before_tile = [&sharded](const TileTurn& /*turn*/) {
      sharded->set_reshard_after_backward(false);
    };
    tiling.after_tile = [&sharded, &unit](const TileTurn& turn) {
      if (!is_last(turn)) return;
      sharded->set_reshard_after_backward(true);
      sharded->reshard(unit);
    };
  } else if (rank.is("never-reshards")) {
    tiling.before_tile = [&sharded](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
      sharded->set_reshard_after_backward(false);
    };
  } else if (rank.is("keeps-until-last-tile")) {
    tiling.before_tile = [&sharded](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
      sharded->set_reshard_after_backward(is_last(turn));
    };
  }
  return tiling;
}

/// The same under FSDP1, whose hook acts where the gradient of a flat parameter is complete.
TilingOptions flat_deferral(Rank& rank, const std::unique_ptr<FlatShard>& sharded) {
  TilingOptions tiling = tiling_of(rank.cell());
  if (rank.is("flat-plain") || rank.is("flat-whole")) return tiling;
  if (rank.is("flat-explicit-inputs")) {
    tiling.backward = TileBackward::explicit_inputs;
  } else if (rank.is("flat-syncs-in-last-tile")) {
    tiling.before_tile = [&sharded](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
    };
  } else if (rank.is("flat-syncs-behind-tiles")) {
    const bool is_own_unit = is_set(rank.cell(), "wrapped", "mlp");
    tiling.before_tile = [&sharded, is_own_unit](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_own_unit && is_last(turn));
    };
    tiling.after_tile = [&sharded](const TileTurn& turn) {
      sharded->set_requires_gradient_sync(is_last(turn));
    };
  }
  return tiling;
}

FlatStrategy strategy_of(const Cell& cell) {
  if (cell.variant == "flat-whole") return FlatStrategy::no_shard;
  const bool defers = cell.variant.rfind("flat-syncs", 0) == 0;
  return defers ? FlatStrategy::shard_grad_op : FlatStrategy::full_shard;
}

bool is_flat(const Cell& cell) { return cell.variant.rfind("flat-", 0) == 0; }

/// The tiles are inside of the MLP, so that calling it calls the wrapped module once.
void shard(Rank& rank, MlpLayers& model, Engine& engine) {
  const Cell& cell = rank.cell();
  const std::vector<Module*> wrapped = model.at_level(axis_value(cell, "wrapped"));
  const std::vector<Module*> mlps = model.mlps();
  for (std::size_t i = 0; i < mlps.size(); ++i) {
    const Module& unit = wrapped.empty() ? model : *wrapped[i];  // that the MLP is a part of
    tile_calls(*mlps[i], is_flat(cell) ? flat_deferral(rank, engine.flat)
                                       : deferral(rank, engine.fully, unit));
  }
  if (is_flat(cell)) {
    engine.flat = std::make_unique<FlatShard>(model, wrapped, rank.group(), strategy_of(cell));
  } else {
    engine.fully = std::make_unique<FullyShard>(model, wrapped, rank.group());
  }
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
  Engine engine;
  shard(rank, model, engine);
  train_sharded(rank, engine.any(), {},
                [&](const MicroBatch& batch) { return loss_of(rank, batch, model); });
}

/// The forward of step 2 is the first to find old parameters.
Expectation expect_old_parameters(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  return pinned(expect_wrong_shards(), {{.claim = kGradientsEqual,
                                         .steps = {2},
                                         .last_step = cell.steps,
                                         .cosine = kOtherDirection,
                                         .why = "how far a step moves the gradients is drawn"}});
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  if (cell.variant == "never-reshards") return expect_old_parameters(cell);
  if (is_flat(cell) && cell.world_size == 1) return expect_hidden();  // nothing is sharded
  const bool releases_each =
      cell.variant == "reshards-behind-each-tile" || cell.variant == "flat-plain";
  const bool has_next_tile = releases_each && number_on(cell, "tiles") > 1;
  if (is_set(cell, "wrapped", "mlp") && !has_next_tile) return expect_hidden();
  // The next tile makes a view of a weight; the layer's norm reads its own.
  return expect_error(has_next_tile ? fully_shard_error::kViewOfReleased
                                    : fully_shard_error::kReleased);
}

std::vector<Variant> variants() {
  return {
      {.name = "reshards-behind-each-tile",
       .role = Role::buggy,
       .summary = "FSDP2: no tile but the last reduces, and each releases its parameters: nobody "
                  "gathers them again for the next"},
      {.name = "reshards-behind-last-tile",
       .role = Role::buggy,
       .summary = "FSDP2: releasing is put off, and done by hand behind the last tile: right where "
                  "the MLP is wrapped itself; else the rest of the layer has no parameters"},
      {.name = "gathers-for-each-tile",
       .role = Role::wrong_fix,
       .summary = "FSDP2: each tile gathers them first: right where the MLP is wrapped itself; "
                  "else the rest of the layer has none"},
      {.name = "never-reshards",
       .role = Role::wrong_fix,
       .summary = "FSDP2: parameters are never released: the next forward finds those of before "
                  "the optimizer's step"},
      {.name = "keeps-until-last-tile",
       .role = Role::fixed,
       .summary = "FSDP2: reducing and releasing are put off to the last tile, and left to the "
                  "engine there"},
      {.name = "plain",
       .role = Role::fixed,
       .summary = "FSDP2: nothing is put off: it acts where backward leaves the wrapped module"},
      {.name = "flat-plain",
       .role = Role::buggy,
       .summary = "FSDP1: nothing is put off: the first tile's backward completes the flat "
                  "parameter's gradient, whose hook reduces and releases"},
      {.name = "flat-syncs-in-last-tile",
       .role = Role::wrong_fix,
       .summary = "FSDP1, SHARD_GRAD_OP: all tiles but the last are under no_sync: right where the "
                  "MLP is wrapped itself; else the rest of the layer has no parameters"},
      {.name = "flat-syncs-behind-tiles",
       .role = Role::fixed,
       .summary = "FSDP1, SHARD_GRAD_OP: all tiles are under no_sync where the MLP is not wrapped "
                  "itself: the rest of backward completes the gradient once more"},
      {.name = "flat-explicit-inputs",
       .role = Role::fixed,
       .summary = "FSDP1: the parameters are inputs of the tiled function: one gradient comes out"},
      {.name = "flat-whole",
       .role = Role::fixed,
       .summary = "FSDP1, NO_SHARD: nothing is ever released, and every tile's backward reduces"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, no tiles: the mean of all shards' gradients",
       .without = {"wrapped", "tiles"}},
  };
}

}  // namespace

Scenario resharded_while_still_needed() {
  return {
      .id = "resharded-while-still-needed",
      .summary =
          "Tiles of an MLP release sharded parameters that later tiles, or the rest of "
          "backward, still need: torch finds no data.",
      .provenance = {.project = "axolotl, DeepSpeed, PyTorch",
                     .link = "axolotl's deferral of FSDP2's reshard in its tiled MLP; TiledMLP of "
                             "Arctic Long Sequence Training (2025); pytorch's "
                             "FSDPModule.reshard and FullyShardedDataParallel.no_sync",
                     .kept = "a tiled MLP whose reduction is put off to the last tile, as it is "
                             "for ZeRO, under both of torch's sharded engines",
                     .left_out = "attention, mixed precision, streams"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = {{"wrapped", {"mlp", "layer", "root"}, "layer"},
               {"tiles", {"1", "2", "4"}, "2"},
               {"dtype", {"float32", "float64"}, "float32"}},
      .variants = variants(),
      .claims = sharded_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
