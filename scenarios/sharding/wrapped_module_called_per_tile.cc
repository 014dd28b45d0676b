// Tiles are built around a wrapped MLP, so each tile calls the wrapped module, in forward and again
// in backward. FSDP2 expects one call per backward: from a module's first gradient to the end of
// the whole backward, it treats another call as a recomputation. The first tile is reduced. Later
// tiles are not, because FSDP2 considers the module's group done. Their gradients stay on the
// unsharded parameters and are added to the next step's.

#include "harness/train/loop/tiled_mlps.h"

namespace lockstep {

namespace {

constexpr std::int64_t kRows = 4;  // so few that perturbed inputs move the reference

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    TilingOptions tiling = tiling_options(rank);
    if (rank.has("reduces", "in-last-tile")) sync_in_last_tile(tiling, mlps.engine());
    const bool is_inside = rank.has("tiles_are", "inside");
    if (is_inside) mlps.tile(tiling);
    mlps.shard();
    if (!is_inside) mlps.tile(tiling);
  }
  mlps.train({kRows});
}

Expectation expect_first_tile_alone(const Cell& cell) {
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  Pin first_tile = wrong_gradients_of(cell, {"*.mlp.*"}, "what the first tile gives is drawn");
  first_tile.cosine = kOtherDirection;
  return pinned(expect_wrong_shards(), {first_tile});
}

Expectation expect_never_trained(const Cell& cell) {
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  return pinned(expect_wrong_shards(SymptomKind::never_trained),
                {wrong_gradients_of(cell, {"*.mlp.*"}, "there is no gradient")});
}

}  // namespace

Scenario wrapped_module_called_per_tile() {
  return {
      .summary =
          "Each tile calls the same FSDP2 module within one backward: only the first tile's "
          "gradients are reduced.",
      .origin = {"PyTorch",
                 "fully_shard of torch 2.11, as tests/parity/fully_shard_parity.py shows",
                 "a tiled function around a wrapped MLP", "attention, mixed precision, streams"},
      .variants =
          {buggy("tiles-around",
                 "FSDP2 reduces only the first tile's gradients: each tile calls the wrapped MLP",
                 "engine=fsdp2 wrapped=mlp tiles_are=around", expect_first_tile_alone),
           wrong_fix(
               "reduces-in-last-tile",
               "FSDP2, gradient sync in the last tile only, which reduces nothing: no gradient",
               "engine=fsdp2 wrapped=mlp tiles_are=around reduces=in-last-tile",
               expect_never_trained),
           fixed("tiles-inside",
                 "FSDP2: the tiles replace the forward of the MLP, so it is called once",
                 "engine=fsdp2 wrapped=mlp tiles_are=inside"),
           fixed("layers-wrapped", "FSDP2: the layer is wrapped, not the MLP",
                 "engine=fsdp2 wrapped=layer tiles_are=inside"),
           fixed("flat-tiles-around",
                 "FSDP1: each tile gathers, and its backward reduces its gradient",
                 "engine=fsdp1 wrapped=mlp tiles_are=around"),
           reference("reference", "one process, no tiles: the mean of all shards' gradients",
                     "tiles=1")},
      .worlds = worlds_from(1),
      .axes = {tiles_axis("2"), dtype_axis()},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
