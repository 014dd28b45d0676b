// A tiled MLP calls backward() for every tile, and DDP's hooks run once per tile. The reducer
// expects them once: an error while it waits for other parameters, else silence, and the mean of
// the first tile's gradients plus each rank's own of all other tiles.

#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>

#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/mlp_between_layers.h"
#include "harness/train/nn/vision_language_model.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;

/// The layers around the MLP decide which gradients the reducer still expects after the first tile.
MlpBetweenLayersOptions layers_of(const Rank& rank) {
  const bool is_between = rank.has("around", "layers");
  const bool is_dyadic = rank.has("values", "dyadic");
  return {.width = kWidth,
          .has_below = is_between,
          .has_above = is_between || rank.has("around", "above"),
          .activation = is_dyadic ? GateActivation::identity : GateActivation::silu,
          .frozen = rank.text("frozen"),
          .has_whole_weights = is_dyadic};
}

TilingOptions tiling_of(Rank& rank) {
  rank.at_branch();
  TilingOptions tiling = tiling_options(rank);
  const bool is_gated = rank.has("gate", "several-ranks") && rank.world_size() == 1;
  if (is_gated) tiling.backward = TileBackward::backward_per_tile;
  return tiling;
}

/// A step would give weights so many digits that sums of their products are rounded.
bool parameters_move(const Cell& cell) { return !is_set(cell, "values", "dyadic"); }

TrainingOptions options_of(const Rank& rank) {
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  if (!parameters_move(rank.cell())) options.learning_rate = 0;
  return options;
}

at::Tensor input_of(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                    at::IntArrayRef shape) {
  return rank.has("values", "dyadic") ? whole_input(rank, batch, base, shape)
                                      : normal_input(rank, batch, base, shape);
}

void train_layers(Rank& rank) {
  MlpBetweenLayers model(cpu_generator(rank.seed(0)), layers_of(rank));
  model.to(dtype_of(rank.cell()));
  Training training(rank, model, options_of(rank));
  const auto run_mlp = [&](const at::Tensor& hidden) {
    return rank.is_reference() ? model.mlp().forward(hidden)
                               : tiled(model.mlp(), hidden, tiling_of(rank));
  };
  const std::vector<std::int64_t> shape{rank.number("batch"), rank.number("length"), kWidth};
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor input = input_of(rank, batch, 1'000'000, shape);
    const at::Tensor target = input_of(rank, batch, 2'000'000, shape);
    const at::Tensor output = training.forward([&] { return model.run(input, run_mlp); });
    if (rank.has("values", "dyadic")) return (output * target).sum();
    return (output - target).pow(2).mean();
  }});
}

/// The model of the pull request: adapters in every projection, all else frozen.
void train_vision_language_model(Rank& rank) {
  VisionLanguageModel model({.lora = LoraOptions{.draws_b = true}}, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  if (!rank.is_reference()) {
    model.run_mlps_with([&rank](Module& mlp, const at::Tensor& input) {
      return tiled(mlp, input, tiling_of(rank));
    });
  }
  Training training(rank, model, options_of(rank));
  const std::int64_t rows = rank.number("batch"), length = rank.number("length");
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor image = input_of(rank, batch, 1'000'000, {rows, 1, 8, 8});
    const at::Tensor tokens =
        at::randint(32, {rows, length}, cpu_generator(rank.seed(batch.seed(2'000'000))), at::kLong)
            .to(rank.device());
    return next_token_loss(training.forward([&] { return model.forward(image, tokens); }), tokens);
  }});
}

void train(Rank& rank) {
  (rank.has("around", "vision-language-model") ? train_vision_language_model : train_layers)(rank);
}

// Tiles without a trainable parameter run no hook.
bool has_hooks(const Cell& cell) { return !is_set(cell, "frozen", "all"); }

/// Whether the reducer waits for other parameters after the first tile.
bool waits_for_others(const Cell& cell) {
  return !is_set(cell, "around", "above") && !is_set(cell, "around", "nothing");
}

/// Whether DDP searches the graph for unused parameters. It does not see parameters inside the
/// function, and takes them for unused.
bool looks_for_unused(const Cell& cell) {
  return !is_set(cell, "static_graph") && is_set(cell, "find_unused");
}

std::string precondition(const Cell& cell) {
  if (std::string reason = refuse_ddp_of_one_rank(cell); !reason.empty()) return reason;
  if (is_set(cell, "around", "nothing") && !has_hooks(cell)) {
    return "DDP refuses a model without a parameter that requires a gradient";
  }
  if (is_set(cell, "around", "vision-language-model")) {
    if (!is_set(cell, "frozen", "none")) return "the adapters decide what is frozen in this model";
    if (is_set(cell, "values", "dyadic")) return "its softmax and norms are not polynomial";
    if (is_set(cell, "dtype", "bfloat16")) {
      return "in bfloat16 so many layers round more than a tolerance may allow";
    }
  }
  const bool sets_aside = is_set(cell, "tile_accumulation", "set-aside");
  if (is_set(cell, "dtype", "bfloat16")) {
    if (is_set(cell, "values", "dyadic")) {
      return "sums of these products have more digits than bfloat16";
    }
    if (sets_aside) return hidden_by_rounding(0.48);
  }
  return sets_aside ? "" : refuse_no_sync_with_static_graph(cell);
}

/// The parameters inside the tiled function. Its backward may leave any of them wrong.
std::vector<std::string> tiled_tensors(const Cell& cell) {
  if (is_set(cell, "around", "vision-language-model")) return {"language.blocks.*.mlp.*"};
  return {"mlp.*"};
}

Expectation expect_backward_per_tile(const Cell& cell) {
  if (!has_hooks(cell)) return expect_hidden();
  if (looks_for_unused(cell)) return expect_error(ddp_error::kReadyTwice);
  if (number_on(cell, "tiles") == 1) return expect_hidden();
  if (waits_for_others(cell)) return expect_error(ddp_error::kReadyTwice);
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.47));
  return expect_apart(cell, tiled_tensors(cell), parameters_move(cell));
}

/// The first backward is right, because the reduction waits for its end. From then on the last
/// tile's hook reduces the current `.grad`: the gradient of that tile alone.
Expectation expect_static_graph_set_aside(const Cell& cell) {
  if (has_no_sync_with_static_graph(cell)) return expect_error(ddp_error::kNotArmed);
  const bool accumulates = number_on(cell, "accumulation") > 1;
  const std::int64_t first_wrong = accumulates ? 1 : 2;
  if (!has_hooks(cell) || cell.steps < first_wrong) return expect_hidden();
  const bool loses_tiles = number_on(cell, "tiles") > 1;
  if (!waits_for_others(cell)) {
    // The reduction ends inside the last tile's backward, before the other tiles are added back.
    if (!loses_tiles) return expect_hidden();
    return expect_apart(cell, tiled_tensors(cell), parameters_move(cell), first_wrong);
  }
  if (is_set(cell, "bucket_view")) return expect_error(ddp_error::kNotBucketView, first_wrong);
  if (!loses_tiles && !accumulates && !is_set(cell, "prior")) return expect_hidden();
  return expect_alike_but_wrong(cell, tiled_tensors(cell), parameters_move(cell), first_wrong);
}

Expectation expect_grad_but_last(const Cell& cell) {
  if (!looks_for_unused(cell) || !has_hooks(cell)) return {};
  return expect_not_applicable(
      "find_unused_parameters does not see parameters inside of the function: "
      "grad-but-last-find-unused shows it");
}

Expectation expect_find_unused(const Cell& cell) {
  return has_hooks(cell) ? expect_error(ddp_error::kReadyTwice) : expect_hidden();
}

}  // namespace

Scenario tiled_backward_fires_hooks_per_tile() {
  return {
      .summary =
          "A tiled MLP calls backward() for every tile: gradient hooks of its parameters run once "
          "per tile, but DDP's reducer expects one call.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the tiled MLP before and after, the gate, adapters, the error text's advice",
                 "Qwen3-VL and the GPUs: a small model of the same build"},
      .variants =
          {buggy("backward-per-tile", "backward() for every tile, as first written",
                 "tile_backward=per-tile static_graph=off", expect_backward_per_tile),
           fixed("grad-but-last",
                 "the pull request: gradients of all tiles except the last bypass the hooks",
                 "tile_backward=grad-but-last", expect_grad_but_last),
           fixed("gated", "the pull request with its gate: only if there are several ranks",
                 "tile_backward=grad-but-last gate=several-ranks find_unused=off static_graph=off"),
           fixed("explicit-inputs",
                 "the parameters are inputs of the function: autograd gets each gradient once",
                 "tile_backward=explicit-inputs"),
           latent("static-graph-in-place",
                  "a static graph, as the error advises; tiles add to .grad in place: right",
                  "tile_backward=per-tile static_graph=on"),
           wrong_fix(
               "static-graph-set-aside",
               "a static graph, but tiles set .grad aside: later steps reduce only the last tile",
               "tile_backward=per-tile tile_accumulation=set-aside static_graph=on",
               expect_static_graph_set_aside),
           wrong_fix("grad-but-last-find-unused",
                     "find_unused_parameters does not see the parameters inside the function",
                     "tile_backward=grad-but-last find_unused=on static_graph=off",
                     expect_find_unused),
           fixed("one-tile-in-place",
                 "one tile and two micro-batches, added in place: nothing is lost",
                 "tile_backward=grad-but-last tiles=1 accumulation=2 around=layers frozen=none "
                 "values=drawn prior=off find_unused=off static_graph=off bucket=standard")
               .compared_with("reference-two-micro-batches"),
           wrong_fix(
               "one-tile-set-aside",
               "one tile: the earlier micro-batches, set aside from .grad, are never restored",
               "tile_backward=grad-but-last tile_accumulation=set-aside tiles=1 accumulation=2 "
               "around=layers frozen=none values=drawn prior=off find_unused=off static_graph=off "
               "bucket=standard",
               [](const Cell& cell) { return expect_alike_but_wrong(cell, tiled_tensors(cell)); })
               .compared_with("reference-two-micro-batches"),
           reference("reference", "one process, no tiles: the mean of all shards' gradients"),
           reference("reference-two-micro-batches",
                     "one process, no tiles, two micro-batches: the mean of all shards' gradients",
                     "accumulation=2 around=layers frozen=none values=drawn prior=off")},
      .worlds = worlds_from(1),
      .axes =
          tiled_axes({{"around", {"layers", "above", "nothing", "vision-language-model"}, "layers"},
                      {"frozen", {"none", "gate", "all"}, "none"},
                      {"values", {"drawn", "dyadic"}, "drawn"}}),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
