// The hooks of tiled-gradient-accumulator-stacks-hooks under DDP. Its review expected them to work.
// DDP acts after each tile's gradient, whatever the hooks return, so the accumulator cannot defer
// the reduction. With a static graph the reducer counts the tiles, and the gradients are wrong as
// under FSDP2.

#include "harness/train/loop/accumulator_cells.h"

namespace lockstep {

namespace {

void train(Rank& rank) {
  train_with_accumulator(rank, [&](TiledMlps& mlps) {
    rank.at_branch();
    mlps.tile(accumulator_tiling(rank));
  });
}

/// The first parameter's hook runs again while the reducer waits for other parameters.
Expectation expect_hooks_per_tile(const Cell& cell) {
  if (pieces_of(cell) > 1) return expect_error(ddp_error::kReadyTwice);
  return is_set(cell, "hooks", "mended") ? expect_hidden() : expect_published_hooks(cell);
}

std::string precondition(const Cell& cell) {
  const std::string reason = refuse_tiles(cell);
  return reason.empty() ? refuse_no_sync_with_static_graph(cell) : reason;
}

/// Ranks have whole gradients, so they must agree on them.
std::vector<Variant> variants() {
  const std::vector<Claim> whole{kGradientsAgree, kParametersAgree};
  return {
      buggy("ddp-published", "the accumulator as merged: DDP's hooks still run once per tile",
            "hooks=published gradients=stay", expect_hooks_per_tile)
          .with_claims(whole),
      wrong_fix("ddp-published-static-graph",
                "a static graph, as the error advises: no error, and the same fault as under FSDP2",
                "hooks=published gradients=stay static_graph=on", expect_published_hooks)
          .with_claims(whole),
      latent("ddp-published-static-graph-by-its-law",
             "the same matches its formula: no other fault",
             "hooks=published gradients=stay static_graph=on law=compared")
          .compared_with("reference-law")
          .with_claims(whole),
      wrong_fix("ddp-mended-hooks",
                "hooks that are right under FSDP2: DDP's still run once per tile",
                "hooks=mended gradients=stay", expect_hooks_per_tile)
          .with_claims(whole),
      fixed("ddp-mended-hooks-static-graph",
            "correct hooks with a static graph, which counts the calls",
            "hooks=mended gradients=stay static_graph=on")
          .with_claims(whole),
      reference("reference", "one process, untiled"),
      reference("reference-law", "one process that weights tiles by the formula",
                "gradients=stay law=weighed"),
  };
}

}  // namespace

Scenario tiled_gradient_accumulator_under_ddp() {
  return {
      .summary =
          "A tiled MLP's gradients are accumulated by hooks under DDP, whose own hooks still run "
          "once per tile.",
      .origin = {"axolotl", "pull request #2950 (merged 2025-07-25)",
                 "the accumulator, and the review's question whether it works for DDP",
                 "see tiled-gradient-accumulator-stacks-hooks"},
      .variants = variants(),
      .worlds = worlds_from(1, 8),
      .axes = accumulator_axes({}, {switch_axis("no_sync", false), dtype_axis()}),
      .claims = sharded_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
