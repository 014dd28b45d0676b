// A fix of tiled backwards that relies on the last tile: only the last tile's backward() runs the
// hooks. If the last tile does not use a parameter, such as an expert without a token, the reducer
// never learns that it is ready. The same fix fails for a module that two layers share, and for a
// parameter that no rank uses. A tile that uses all parameters but not its input has no input
// gradient to copy.

#include <memory>

#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/expert_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = ExpertLayers::kWidth;
/// Torch's text for an undefined tensor, which is None in Python.
constexpr const char* kNoTensor = "Expected a proper Tensor but got None";

ExpertLayersOptions options_of(const Rank& rank) {
  return {.layers = rank.has("layers", "shared") ? 2 : 1,
          .has_padding = rank.has("tokens", "padded"),
          .touches_all = rank.has("touches", "all")};
}

/// The experts and, in some cells, a layer that no rank uses.
class Model : public ExpertLayers {
 public:
  Model(const Rank& rank, const at::Generator& generator)
      : ExpertLayers(options_of(rank), generator) {
    if (!rank.has("layers", "one-unused")) return;
    register_module("unused", std::make_shared<Linear>(kWidth, kWidth, generator));
  }
};

void train(Rank& rank) {
  Model model(rank, cpu_generator(rank.seed(0)));
  TilingOptions tiling = tiling_options(rank);
  tiling.guards_input_gradient = !rank.has("guard", "none");
  const TileFunction experts = [&](const at::Tensor& rows) {
    return std::vector{model.experts(rows)};
  };
  train_on_sequences(rank, model, kWidth, [&](const at::Tensor& input) {
    if (rank.is_reference()) return model.forward(input);
    rank.at_branch();
    return model.run(input, [&](const at::Tensor& routed) {
      return tiled(experts, model.expert_parameters(), routed, tiling).front();
    });
  });
}

/// A reducer that waits for a missing parameter leaves the step unsynchronised. The error comes
/// when the next synchronising forward begins: in the same step if every micro-batch synchronises.
Expectation expect_unfinished_reduction(const Cell& cell) {
  if (number_on(cell, "accumulation") > 1 && !is_set(cell, "no_sync")) {
    return expect_error(ddp_error::kPriorUnfinished);
  }
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.96));
  const std::vector<std::string> all{"*"};
  if (cell.steps == 1) return expect_apart(cell, all);
  return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, all);
}

Expectation expect_absent(const Cell& cell) {
  return number_on(cell, "tiles") == 1 ? expect_hidden() : expect_unfinished_reduction(cell);
}

Expectation expect_no_tensor(const Cell& cell) {
  return number_on(cell, "tiles") == 1 ? expect_hidden() : expect_error(kNoTensor);
}

/// The expert counts as unused, so every rank keeps its own `.grad`. A gradient that exists when
/// backward begins is used instead, divided. With a bucket view, tiles add to it, undivided, before
/// the bucket is reduced.
Expectation expect_left_out(const Cell& cell) {
  if (has_no_sync_with_static_graph(cell)) return expect_error(ddp_error::kNotArmed);
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.19));
  const bool is_view = is_set(cell, "bucket_view");
  const bool is_single = number_on(cell, "accumulation") == 1;
  const std::int64_t first_wrong = is_view && is_single ? 2 : 1;
  if (cell.steps < first_wrong) return expect_hidden();
  if (!is_view || (!is_set(cell, "prior") && is_single)) {
    return expect_apart(cell, {"rare.*"}, /*parameters_move=*/true, first_wrong);
  }
  if (is_set(cell, "bucket", "small")) {
    return expect_not_applicable("tiles add to a bucket that is being reduced: a race");
  }
  return expect_alike_but_wrong(cell, {"rare.*"}, /*parameters_move=*/true, first_wrong);
}

std::string precondition(const Cell& cell) {
  return is_set(cell, "expert", "left-out") ? "" : refuse_no_sync_with_static_graph(cell);
}

std::vector<Variant> variants() {
  const ExpectationOf ready_twice = always(expect_error(ddp_error::kReadyTwice));
  return {
      buggy("grad-but-last", "an expert has no token in the last tile: its hook never runs",
            "tile_backward=grad-but-last find_unused=off static_graph=off", expect_absent),
      fixed("touching-all",
            "every tile adds zero times every parameter, so all are in the last tile",
            "tile_backward=grad-but-last touches=all find_unused=off"),
      fixed("explicit-inputs",
            "the parameters are inputs of the function: every hook runs, whatever tiles use",
            "tile_backward=explicit-inputs"),
      wrong_fix(
          "static-graph",
          "a static graph counts the expert as unused: no error, and no synchronisation, ever",
          "tile_backward=grad-but-last expert=left-out static_graph=on", expect_left_out),
      wrong_fix("find-unused",
                "find_unused_parameters takes all parameters inside the function for unused",
                "tile_backward=grad-but-last find_unused=on static_graph=off", ready_twice),
      buggy(
          "shared-grad-but-last",
          "two layers share the module: each has a last tile, so hooks run twice",
          "tile_backward=grad-but-last layers=shared touches=all find_unused=off static_graph=off",
          ready_twice)
          .compared_with("reference-shared"),
      fixed("shared-static-graph",
            "a shared module with a static graph: the reducer counts both hooks",
            "tile_backward=grad-but-last layers=shared touches=all static_graph=on")
          .compared_with("reference-shared"),
      fixed("shared-explicit-inputs",
            "a shared module with explicit inputs: gradients are summed before hooks run",
            "tile_backward=explicit-inputs layers=shared")
          .compared_with("reference-shared"),
      buggy("unused-by-nobody",
            "no rank uses a layer: the step is not synchronised, and the next one fails",
            "tile_backward=explicit-inputs layers=one-unused find_unused=off static_graph=off",
            expect_unfinished_reduction)
          .compared_with("reference-unused"),
      fixed("unused-found", "no rank uses a layer: find_unused_parameters detects it",
            "tile_backward=explicit-inputs layers=one-unused find_unused=on static_graph=off")
          .compared_with("reference-unused"),
      fixed("unused-static-graph", "no rank uses a layer: a static graph skips it",
            "tile_backward=explicit-inputs layers=one-unused static_graph=on")
          .compared_with("reference-unused"),
      buggy("tokenless-tile",
            "a tile of padding has no input gradient: the first version copies it anyway",
            "tile_backward=grad-but-last tokens=padded touches=all guard=none find_unused=off "
            "static_graph=off",
            expect_no_tensor)
          .compared_with("reference-tokenless"),
      fixed("tokenless-tile-guarded", "the review: the input gradient is copied only if it exists",
            "tile_backward=grad-but-last tokens=padded touches=all find_unused=off")
          .compared_with("reference-tokenless"),
      reference("reference", "one process, no tiles: the mean of all shards' gradients"),
      reference("reference-shared", "one process, no tiles, with a module that two layers share",
                "layers=shared"),
      reference("reference-unused", "one process, no tiles, with an unused layer",
                "layers=one-unused"),
      reference("reference-tokenless",
                "one process, no tiles; the first half of all tokens is padding", "tokens=padded"),
  };
}

}  // namespace

Scenario tiled_parameter_absent_from_last_tile() {
  return {
      .summary =
          "Gradient hooks fire only in the last tile. A parameter missing from that tile leaves "
          "the reducer waiting, raises an error, or is silently skipped.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the repair, applied to experts, a shared module and an unused layer; its guard",
                 "a router: the input says which token goes to which expert"},
      .variants = variants(),
      .axes = tiled_axes(),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
