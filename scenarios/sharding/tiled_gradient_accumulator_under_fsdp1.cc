// The hooks of tiled-gradient-accumulator-stacks-hooks under FSDP1, which replaces all parameters
// of a wrapped module by one flat parameter. Hooks find it on the module, and find nothing on the
// module's parts. FSDP1 acts after each tile's gradient, whatever the hooks return.

#include "harness/train/loop/accumulator_cells.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

void train(Rank& rank) {
  train_with_accumulator(rank, [&](TiledMlps& mlps) {
    rank.at_branch();
    for (Module* mlp : mlps.model().mlps()) {
      const auto listed = [&mlps, mlp] {
        return dynamic_cast<FlatShard&>(*mlps.engine()).listed_parameters(*mlp);
      };
      tile_calls(*mlp, accumulator_tiling(rank, listed));
    }
    mlps.shard();
  });
}

Expectation expect_whole(const Cell& cell) {
  const bool has_hooks = is_set(cell, "wrapped", "mlp") && is_set(cell, "hooks", "published");
  return has_hooks ? expect_published_hooks(cell) : expect_hidden();
}

/// FSDP1 reduces the first tile's gradient and releases the parameters. Then the next tile cannot
/// make a view of a weight, or the layer's norm cannot read its own. One rank shards nothing.
Expectation expect_released(const Cell& cell) {
  if (cell.world_size == 1) return expect_whole(cell);
  if (pieces_of(cell) > 1) return expect_error(fully_shard_error::kViewOfReleased);
  if (!is_set(cell, "wrapped", "mlp")) return expect_error(fully_shard_error::kReleased);
  return expect_whole(cell);
}

/// In variants with whole gradients, ranks must agree on them.
std::vector<Variant> variants() {
  const std::vector<Claim> whole{kGradientsAgree, kParametersAgree};
  return {
      buggy("flat-published",
            "FULL_SHARD: after the first tile, the gradient is reduced and the parameters freed",
            "engine=fsdp1 hooks=published gradients=stay", expect_released),
      wrong_fix(
          "flat-mended-hooks",
          "FULL_SHARD, hooks that are right under FSDP2: parameters freed after the first tile",
          "engine=fsdp1 hooks=mended gradients=stay", expect_released),
      buggy("flat-whole-published",
            "NO_SHARD: FSDP2's fault if the MLP itself is wrapped; otherwise no hook runs",
            "engine=fsdp1 strategy=no-shard hooks=published gradients=stay", expect_whole)
          .with_claims(whole),
      latent(
          "flat-whole-published-by-its-law",
          "NO_SHARD, the MLP wrapped: it matches its formula, no other fault",
          "engine=fsdp1 strategy=no-shard hooks=published gradients=stay wrapped=mlp law=compared")
          .compared_with("reference-law")
          .with_claims(whole),
      fixed("flat-whole-mended-hooks", "NO_SHARD with correct hooks",
            "engine=fsdp1 strategy=no-shard hooks=mended gradients=stay")
          .with_claims(whole),
      reference("reference", "one process, untiled"),
      reference("reference-law", "one process that weights tiles by the formula",
                "gradients=stay law=weighed"),
  };
}

}  // namespace

Scenario tiled_gradient_accumulator_under_fsdp1() {
  return {
      .summary =
          "A tiled MLP's gradients are accumulated by hooks under FSDP1, which reduces the first "
          "tile and frees the parameters.",
      .origin = {"axolotl", "pull request #2950 (merged 2025-07-25)",
                 "the accumulator, and the review's question whether it works for FSDP1",
                 "see tiled-gradient-accumulator-stacks-hooks"},
      .variants = variants(),
      .worlds = worlds_from(1, 8),
      .axes = accumulator_axes({rank_axis("wrapped", {"mlp", "layer", "root"}, "mlp")},
                               {switch_axis("no_sync", false), dtype_axis()}),
      .claims = sharded_claims(),
      .precondition = refuse_tiles,
      .body = train,
  };
}

}  // namespace lockstep
