// The forward of an MLP is replaced by one that computes tile by tile, and again in backward. A
// sharded engine gathers parameters when a wrapped module is called and when backward reaches it:
// once each, for any number of tiles. A trainer may reduce and release by hand after each tile to
// save memory. Then the next tile has no parameters. If the layer or the model is wrapped instead
// of the MLP, the rest of its backward has none either, even if each tile gathers. FSDP1 does this
// by itself: the hook of its flat parameter releases after the first tile.

#include "harness/train/loop/tiled_mlps.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 4;  // so few that perturbed inputs move the reference

/// Calls FSDP2 around the tiles of an MLP in `unit`.
void defer(TilingOptions& tiling, const Rank& rank, const TiledMlps& mlps, const Module& unit) {
  const auto engine = [&mlps]() -> FullyShard& {
    return dynamic_cast<FullyShard&>(*mlps.engine());
  };
  tiling.before_tile = [&rank, &unit, engine](const TileTurn& turn) {
    if (rank.has("reduces", "in-last-tile")) engine().set_requires_gradient_sync(is_last(turn));
    if (rank.has("gathers", "each-tile")) engine().unshard(unit);
    if (rank.has("releases", "never") || rank.has("releases", "behind-last-tile")) {
      engine().set_reshard_after_backward(false);
    }
    if (rank.has("releases", "in-last-tile")) engine().set_reshard_after_backward(is_last(turn));
  };
  tiling.after_tile = [&rank, &unit, engine](const TileTurn& turn) {
    if (rank.has("releases", "behind-each-tile")) engine().reshard(unit);
    if (!rank.has("releases", "behind-last-tile") || !is_last(turn)) return;
    engine().set_reshard_after_backward(true);
    engine().reshard(unit);
  };
}
/// Defers FSDP1's reduction by no_sync, because its hook acts as soon as a flat parameter's
/// gradient is complete.
void defer_flat(TilingOptions& tiling, const Rank& rank, const TiledMlps& mlps) {
  if (rank.has("reduces", "in-last-tile")) sync_in_last_tile(tiling, mlps.engine());
  if (!rank.has("reduces", "behind-tiles")) return;
  const bool is_own_unit = rank.has("wrapped", "mlp");
  tiling.before_tile = [&mlps, is_own_unit](const TileTurn& turn) {
    mlps.engine()->set_requires_gradient_sync(is_own_unit && is_last(turn));
  };
  tiling.after_tile = [&mlps](const TileTurn& turn) {
    mlps.engine()->set_requires_gradient_sync(is_last(turn));
  };
}

/// Puts the tiles inside the MLP: one call of it calls the wrapped module once.
void tile_and_shard(Rank& rank, TiledMlps& mlps) {
  MlpLayers& model = mlps.model();
  const std::vector<Module*> wrapped = model.at_level(rank.text("wrapped"));
  const std::vector<Module*> tiled = model.mlps();
  for (std::size_t i = 0; i < tiled.size(); ++i) {
    const Module& unit = wrapped.empty() ? model : *wrapped[i];  // contains the MLP
    TilingOptions tiling = tiling_options(rank);
    if (rank.has("engine", "fsdp1")) {
      defer_flat(tiling, rank, mlps);
    } else {
      defer(tiling, rank, mlps, unit);
    }
    tile_calls(*tiled[i], tiling);
  }
  mlps.shard();
}

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    tile_and_shard(rank, mlps);
  }
  mlps.train({kRows});
}

/// The forward of step 2 is the first to read old parameters.
Expectation expect_old_parameters(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  return pinned(expect_wrong_shards(), {{.claim = kGradientsEqual,
                                         .steps = {2},
                                         .last_step = cell.steps,
                                         .cosine = kOtherDirection,
                                         .why = "how far a step moves the gradients is drawn"}});
}

/// The layer's norm cannot read its own parameter. If the MLP is wrapped, nothing runs after it.
/// With one rank, FSDP1 shards nothing.
Expectation expect_rest_released(const Cell& cell) {
  const bool is_whole = is_set(cell, "engine", "fsdp1") && cell.world_size == 1;
  if (is_whole || is_set(cell, "wrapped", "mlp")) return expect_hidden();
  return expect_error(fully_shard_error::kReleased);
}

/// The next tile cannot make a view of a weight.
Expectation expect_next_tile_released(const Cell& cell) {
  const bool is_whole = is_set(cell, "engine", "fsdp1") && cell.world_size == 1;
  if (is_whole || number_on(cell, "tiles") == 1) return expect_rest_released(cell);
  return expect_error(fully_shard_error::kViewOfReleased);
}

}  // namespace

Scenario resharded_while_still_needed() {
  return {
      .summary =
          "Tiles of an MLP free sharded parameters that later tiles, or the rest of backward, "
          "still need: torch finds no data.",
      .origin = {"axolotl, DeepSpeed, PyTorch",
                 "axolotl's deferred reshard; TiledMLP of Arctic Long Sequence Training (2025)",
                 "a tiled MLP that reduces in its last tile, under both of torch's sharded engines",
                 "attention, mixed precision, streams"},
      .variants =
          {buggy(
               "reshards-behind-each-tile",
               "FSDP2: each tile frees its parameters, and nothing gathers them for the next tile",
               "engine=fsdp2 reduces=in-last-tile releases=behind-each-tile",
               expect_next_tile_released),
           buggy("reshards-behind-last-tile",
                 "FSDP2: freed after the last tile; wrong if the layer, not the MLP, is wrapped",
                 "engine=fsdp2 releases=behind-last-tile", expect_rest_released),
           wrong_fix(
               "gathers-for-each-tile",
               "FSDP2: each tile gathers first; wrong if the layer, not the MLP, is wrapped",
               "engine=fsdp2 reduces=in-last-tile gathers=each-tile releases=behind-each-tile",
               expect_rest_released),
           wrong_fix("never-reshards",
                     "FSDP2: parameters are never freed, so the next forward uses outdated ones",
                     "engine=fsdp2 reduces=in-last-tile releases=never", expect_old_parameters),
           fixed(
               "keeps-until-last-tile",
               "FSDP2: reducing and freeing are deferred to the last tile, and left to the engine",
               "engine=fsdp2 reduces=in-last-tile releases=in-last-tile"),
           fixed("plain",
                 "FSDP2: nothing is deferred; it acts when backward leaves the wrapped module",
                 "engine=fsdp2"),
           buggy("flat-plain",
                 "FSDP1: the first tile completes the flat gradient, which is reduced and freed",
                 "engine=fsdp1", expect_next_tile_released),
           wrong_fix("flat-syncs-in-last-tile",
                     "FSDP1: no_sync except in the last tile; wrong if the layer, not the MLP, is "
                     "wrapped",
                     "engine=fsdp1 strategy=shard-grad-op reduces=in-last-tile",
                     expect_rest_released),
           fixed("flat-syncs-behind-tiles",
                 "FSDP1: no_sync in all tiles; the rest of the layer's backward synchronises",
                 "engine=fsdp1 strategy=shard-grad-op reduces=behind-tiles"),
           fixed("flat-explicit-inputs",
                 "FSDP1: the parameters are inputs of the tiled function, with one gradient each",
                 "engine=fsdp1 tile_backward=explicit-inputs"),
           fixed("flat-whole",
                 "FSDP1, NO_SHARD: nothing is ever freed, and every tile's backward reduces",
                 "engine=fsdp1 strategy=no-shard"),
           reference("reference", "one process, no tiles: the mean of all shards' gradients",
                     "wrapped=layer tiles=1")},
      .worlds = worlds_from(1),
      .axes = {{"wrapped", {"mlp", "layer", "root"}, "layer"}, tiles_axis("2"), dtype_axis()},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
