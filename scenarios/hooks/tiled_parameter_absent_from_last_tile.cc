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

Expectation expect_ready_twice(const Cell&) { return expect_error(ddp_error::kReadyTwice); }

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
  return {
      {"grad-but-last", Role::buggy,
       "an expert without a token in the last tile: its hook never runs",
       "tile_backward=grad-but-last find_unused=off static_graph=off", expect_absent},
      {"touching-all", Role::fixed,
       "every tile adds nought times every parameter: the last one has them all",
       "tile_backward=grad-but-last touches=all find_unused=off"},
      {"explicit-inputs", Role::fixed,
       "the parameters are inputs of the function: hooks run whatever tiles use",
       "tile_backward=explicit-inputs"},
      {"static-graph", Role::wrong_fix,
       "a static graph takes the expert for unused: nobody complains, and every rank keeps its own "
       "gradient for ever",
       "tile_backward=grad-but-last expert=left-out static_graph=on", expect_left_out},
      {"find-unused", Role::wrong_fix,
       "find_unused_parameters takes all parameters inside of the function for unused",
       "tile_backward=grad-but-last find_unused=on static_graph=off", expect_ready_twice},
      {"shared-grad-but-last", Role::buggy,
       "two layers share the module: each has a last tile, and hooks run twice",
       "tile_backward=grad-but-last layers=shared touches=all find_unused=off static_graph=off",
       expect_ready_twice, "reference-shared"},
      {"shared-static-graph",
       Role::fixed,
       "the same with a static graph: the reducer counts both",
       "tile_backward=grad-but-last layers=shared touches=all static_graph=on",
       {},
       "reference-shared"},
      {"shared-explicit-inputs",
       Role::fixed,
       "the same with explicit inputs: autograd adds up before hooks run",
       "tile_backward=explicit-inputs layers=shared",
       {},
       "reference-shared"},
      {"unused-by-nobody", Role::buggy,
       "a layer that no rank uses: the step is not synchronised, the next one fails",
       "tile_backward=explicit-inputs layers=one-unused find_unused=off static_graph=off",
       expect_unfinished_reduction, "reference-unused"},
      {"unused-found",
       Role::fixed,
       "the same with find_unused_parameters",
       "tile_backward=explicit-inputs layers=one-unused find_unused=on static_graph=off",
       {},
       "reference-unused"},
      {"unused-static-graph",
       Role::fixed,
       "the same with a static graph",
       "tile_backward=explicit-inputs layers=one-unused static_graph=on",
       {},
       "reference-unused"},
      {"tokenless-tile", Role::buggy,
       "a tile of padding alone, touching all parameters: the line as it was first written copies "
       "an input's gradient that is not there",
       "tile_backward=grad-but-last tokens=padded touches=all guard=none find_unused=off "
       "static_graph=off",
       expect_no_tensor, "reference-tokenless"},
      {"tokenless-tile-guarded",
       Role::fixed,
       "the review: it is copied where it is there",
       "tile_backward=grad-but-last tokens=padded touches=all find_unused=off",
       {},
       "reference-tokenless"},
      {"reference", Role::reference, "one process, no tiles: the mean of all shards' gradients"},
      {"reference-shared", Role::reference, "the same with a module that two layers share",
       "layers=shared"},
      {"reference-unused", Role::reference, "the same with a layer that nobody uses",
       "layers=one-unused"},
      {"reference-tokenless", Role::reference,
       "the same where the first half of all tokens is padding", "tokens=padded"},
  };
}

}  // namespace

Scenario tiled_parameter_absent_from_last_tile() {
  return {
      .id = "tiled-parameter-absent-from-last-tile",
      .summary =
          "Gradient hooks fire only in the last tile. A parameter missing from that tile leaves "
          "the reducer waiting, raises an error, or is silently skipped.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "the repair of the tiled backward, applied to experts, to a module "
                             "that two layers share, beside a layer that nobody uses; the copy of "
                             "an input's gradient before and after its review",
                     .left_out = "a router: which token goes to which expert is part of the input"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = tiled_axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
