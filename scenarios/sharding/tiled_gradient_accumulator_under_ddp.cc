// The hooks of tiled-gradient-accumulator-stacks-hooks under DDP. Its review expected them to work.
// DDP acts after each tile's gradient, whatever the hooks return, so the accumulator cannot defer
// the reduction. With a static graph the reducer counts the tiles, and the gradients are wrong as
// under FSDP2.

#include "harness/train/loop/accumulator_cells.h"

namespace lockstep {

namespace {

void train(Rank& rank) {
  TiledMlps mlps(rank);
  if (!rank.is_reference()) {
    rank.at_branch();
    mlps.tile(accumulator_tiling(rank));
  }
  train_with_accumulator(rank, mlps);
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
      {"ddp-published", Role::buggy,
       "the accumulator as it was merged: hooks of the parameters still run once per tile",
       "hooks=published gradients=stay", expect_hooks_per_tile, "", whole},
      {"ddp-published-static-graph", Role::wrong_fix,
       "the same with the error text's advice, a static graph: no error, and the fault of FSDP2",
       "hooks=published gradients=stay static_graph=on", expect_published_hooks, "", whole},
      {"ddp-published-static-graph-by-its-law",
       Role::latent,
       "the same beside its law: nothing else is wrong",
       "hooks=published gradients=stay static_graph=on law=compared",
       {},
       "reference-law",
       whole},
      {"ddp-mended-hooks", Role::wrong_fix,
       "hooks that are right under FSDP2: they run once per tile, too",
       "hooks=mended gradients=stay", expect_hooks_per_tile, "", whole},
      {"ddp-mended-hooks-static-graph",
       Role::fixed,
       "hooks that are right, with a static graph, which counts their runs",
       "hooks=mended gradients=stay static_graph=on",
       {},
       "",
       whole},
      {"reference", Role::reference, "one process, untiled"},
      {"reference-law", Role::reference, "one process that weighs tiles by the law",
       "gradients=stay law=weighed"},
  };
}

std::vector<Axis> axes() {
  std::vector<Axis> axes = accumulator_axes({});
  axes.push_back(switch_axis("no_sync", false));
  axes.push_back({"dtype", {"float32", "float64"}, "float32"});
  return axes;
}

}  // namespace

Scenario tiled_gradient_accumulator_under_ddp() {
  return {
      .id = "tiled-gradient-accumulator-under-ddp",
      .summary =
          "A tiled MLP's gradients are added up by hooks under DDP, whose own hooks still run "
          "once per tile.",
      .provenance = {.project = "axolotl",
                     .link = "pull request #2950 (merged 2025-07-25)",
                     .kept = "the accumulator, and the review's question whether it works for DDP",
                     .left_out = "see tiled-gradient-accumulator-stacks-hooks"},
      .worlds = worlds_from(1, 8),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = sharded_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
