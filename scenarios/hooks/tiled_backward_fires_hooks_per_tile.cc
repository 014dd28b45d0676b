// A tiled MLP recomputes its forward tile by tile in backward and calls backward() for every tile:
// DDP's hooks of its parameters run once per tile, and the reducer counts on once. While it waits
// for other parameters that is an error; when the first tile is the last it waited for, it is
// silent: the mean of the first tile's gradients, and each rank's own of all others.

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <utility>

#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/swiglu.h"
#include "harness/train/nn/vision_language_model.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

/// A linear layer and what is trained beside its weight: autograd gives both the same tensor for
/// their gradient.
class SummedLinear : public Module {
 public:
  explicit SummedLinear(std::shared_ptr<Module> base)
      : base_(register_module("base", std::move(base))),
        delta_(register_parameter("delta", at::zeros_like(base_->parameters().front()))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return at::linear(input, base_->parameters().front() + delta_);
  }

 private:
  std::shared_ptr<Module> base_;
  at::Tensor delta_;
};

/// A tiled MLP and what stands around it, which decides what the reducer still waits for when the
/// first tile is done.
class Layers : public Module {
 public:
  Layers(const Cell& cell, const at::Generator& generator) {
    const bool is_between = !has_axis(cell, "around") || is_set(cell, "around", "layers");
    const bool is_dyadic = is_set(cell, "values", "dyadic");
    if (is_between) {
      below_ = register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator));
    }
    mlp_ = register_module("mlp", std::make_shared<SwiGlu>(
                                      kWidth, kHidden, generator,
                                      is_dyadic ? GateActivation::identity : GateActivation::silu));
    if (is_about(cell, "summed-weights")) {
      mlp_->wrap_projections([](std::shared_ptr<Module> layer) {
        return std::make_shared<SummedLinear>(std::move(layer));
      });
    }
    if (is_about(cell, "router")) {
      router_ = register_module("router", std::make_shared<Linear>(kWidth, 2, generator));
    }
    if (is_between || is_set(cell, "around", "above")) {
      above_ = register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator));
    }
    if (is_set(cell, "frozen", "all")) mlp_->freeze();
    if (is_set(cell, "frozen", "gate")) mlp_->parameters().front().requires_grad_(false);
    if (!is_dyadic) return;
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : parameters()) weight.random_(-1, 2, generator);
  }

  /// [batch, length, width] to the output and, where there is a router, its probabilities. Untiled
  /// without `tiling`.
  std::vector<at::Tensor> run(const at::Tensor& input, const TilingOptions* tiling) {
    const at::Tensor hidden = below_ ? below_->forward(input) : input.detach().requires_grad_(true);
    const TileFunction mlp = [this](const at::Tensor& rows) { return run_mlp(rows); };
    std::vector<at::Tensor> tiled_parameters = mlp_->parameters();
    if (router_) {
      for (const at::Tensor& parameter : router_->parameters())
        tiled_parameters.push_back(parameter);
    }
    std::vector<at::Tensor> outputs =
        tiling ? tiled(mlp, tiled_parameters, hidden, *tiling) : mlp(hidden);
    if (above_) outputs.front() = above_->forward(outputs.front());
    return outputs;
  }

  at::Tensor forward(const at::Tensor& input) override { return run(input, nullptr).front(); }

 private:
  std::vector<at::Tensor> run_mlp(const at::Tensor& rows) {
    const at::Tensor output = mlp_->forward(rows);
    if (!router_) return {output};
    const at::Tensor probabilities = router_->forward(rows).softmax(-1);
    return {output * probabilities.narrow(-1, 0, 1), probabilities};
  }

  std::shared_ptr<Linear> below_, router_, above_;
  std::shared_ptr<SwiGlu> mlp_;
};

/// What the cell's variant does in backward; where variants part.
TilingOptions tiling_of(Rank& rank) {
  TilingOptions tiling;
  if (has_axis(rank.cell(), "tiles")) tiling.tiles = number_on(rank.cell(), "tiles");
  if (rank.is("backward-per-tile") || rank.is("static-graph-in-place")) return tiling;
  if (rank.is("static-graph-set-aside")) {
    tiling.accumulation = TileAccumulation::set_aside;
  } else if (rank.is("grad-but-last") || rank.is("grad-but-last-find-unused") ||
             rank.is("one-tile-in-place") || rank.is("summed-weights-aliased")) {
    tiling.backward = TileBackward::grad_but_last;
  } else if (rank.is("summed-weights-cloned")) {
    tiling.backward = TileBackward::grad_but_last;
    tiling.clones_first_gradient = true;
  } else if (rank.is("gated")) {
    if (rank.world_size() > 1) tiling.backward = TileBackward::grad_but_last;
  } else if (rank.is("one-tile-set-aside")) {
    tiling.backward = TileBackward::grad_but_last;
    tiling.accumulation = TileAccumulation::set_aside;
  } else if (rank.is("router-loss-dropped")) {
    tiling.backward = TileBackward::explicit_inputs;
    tiling.carries_all_outputs = false;
  } else if (rank.is("explicit-inputs") || rank.is("router-loss-carried")) {
    tiling.backward = TileBackward::explicit_inputs;
  } else {
    rank.is(rank.cell().variant);  // references differ in model and data alone
  }
  return tiling;
}

/// A step would give weights with more digits than sums of their products can hold.
bool parameters_move(const Cell& cell) { return !is_set(cell, "values", "dyadic"); }

MicroBatchOptions options_of(const Rank& rank) {
  MicroBatchOptions options = micro_batch_options(rank.cell());
  options.wraps = rank.world_size() > 1;
  if (is_about(rank.cell(), "static-graph")) options.ddp.static_graph = true;
  if (is_about(rank.cell(), "find-unused")) options.ddp.find_unused_parameters = true;
  if (is_about(rank.cell(), "one-tile") || is_about(rank.cell(), "two-micro-batches")) {
    options.accumulation = 2;
  }
  if (!parameters_move(rank.cell())) options.learning_rate = 0;
  return options;
}

at::Tensor input_of(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                    at::IntArrayRef shape) {
  if (!is_set(rank.cell(), "values", "dyadic")) return normal_input(rank, batch, base, shape);
  const at::Generator generator = cpu_generator(rank.seed(batch.seed(base)));
  const at::Tensor drawn = at::randint(-1, 2, shape, generator, at::TensorOptions());
  return rank.input(drawn.to(dtype_of(rank.cell())));
}

at::Tensor loss_of(const std::vector<at::Tensor>& outputs, const at::Tensor& target,
                   bool is_dyadic) {
  if (is_dyadic) return (outputs.front() * target).sum();
  const at::Tensor loss = (outputs.front() - target).pow(2).mean();
  return outputs.size() == 1 ? loss : loss + outputs.back().pow(2).mean();
}

void train_layers(Rank& rank) {
  Layers model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const TilingOptions tiling = tiling_of(rank);
  const bool is_tiled = rank.cell().role != Role::reference;
  const std::int64_t rows = number_on(rank.cell(), "batch");
  const std::int64_t length = number_on(rank.cell(), "length");
  train_in_micro_batches(rank, model, options_of(rank), [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = input_of(rank, batch, 1'000'000, {rows, length, kWidth});
    const at::Tensor target = input_of(rank, batch, 2'000'000, {rows, length, kWidth});
    const auto forward = [&] { return model.run(input, is_tiled ? &tiling : nullptr); };
    return loss_of(ddp ? ddp->forward(forward) : forward(), target,
                   is_set(rank.cell(), "values", "dyadic"));
  });
}

/// The model that the seed is about: adapters in every projection, all else frozen.
void train_vision_language_model(Rank& rank) {
  VisionLanguageModel model({.lora = LoraOptions{.draws_b = true}}, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const TilingOptions tiling = tiling_of(rank);
  if (rank.cell().role != Role::reference) {
    model.run_mlps_with(
        [&tiling](Module& mlp, const at::Tensor& input) { return tiled(mlp, input, tiling); });
  }
  const std::int64_t rows = number_on(rank.cell(), "batch");
  const std::int64_t length = number_on(rank.cell(), "length");
  train_in_micro_batches(rank, model, options_of(rank), [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor image = input_of(rank, batch, 1'000'000, {rows, 1, 8, 8});
    const at::Tensor tokens =
        at::randint(32, {rows, length}, cpu_generator(rank.seed(batch.seed(2'000'000))), at::kLong);
    const auto forward = [&] { return std::vector<at::Tensor>{model.forward(image, tokens)}; };
    return next_token_loss((ddp ? ddp->forward(forward) : forward()).front(), tokens);
  });
}

void train(Rank& rank) {
  if (is_set(rank.cell(), "around", "vision-language-model")) {
    train_vision_language_model(rank);
  } else {
    train_layers(rank);
  }
}

/// Tiles that hold no parameter with a gradient run no hook.
bool has_hooks(const Cell& cell) { return !is_set(cell, "frozen", "all"); }

/// Whether the reducer waits for other parameters when the first tile is done.
bool waits_for_others(const Cell& cell) {
  return !is_set(cell, "around", "above") && !is_set(cell, "around", "nothing");
}

bool is_static(const Cell& cell) {
  return is_set(cell, "static_graph") || is_about(cell, "static-graph");
}

/// Whether the walk through the graph that looks for unused parameters is made: it does not see
/// those inside of the function, and takes them for unused.
bool looks_for_unused(const Cell& cell) {
  return !is_static(cell) && (is_set(cell, "find_unused") || is_about(cell, "find-unused"));
}

bool accumulates(const Cell& cell) { return micro_batch_options(cell).accumulation > 1; }

bool asks_for_ddp(const Cell& cell) {
  return is_set(cell, "no_sync") || is_set(cell, "bucket_view") || is_set(cell, "find_unused") ||
         is_set(cell, "static_graph") || is_set(cell, "bucket", "small");
}

/// The violated precondition of a cell; empty when it can be run.
std::string precondition_of(const Cell& cell) {
  const bool is_right = cell.role == Role::fixed || cell.role == Role::reference;
  if (cell.world_size == 1 && !is_right) {
    return "one rank trains without DDP, and the variant is about its reducer";
  }
  if (cell.world_size == 1 && asks_for_ddp(cell)) {
    return "one rank trains without DDP, and the cell asks for an option of it";
  }
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
  if (is_set(cell, "values", "dyadic") && is_set(cell, "dtype", "bfloat16")) {
    return "sums of these products have more digits than bfloat16";
  }
  const bool is_wrong_in_value = is_about(cell, "set-aside") || is_about(cell, "dropped");
  if (is_wrong_in_value && is_set(cell, "dtype", "bfloat16")) {
    return hidden_by_rounding(0.48);
  }
  const bool is_broken_elsewhere = is_static(cell) && is_set(cell, "no_sync") && accumulates(cell);
  if (is_broken_elsewhere && !is_about(cell, "set-aside")) {
    return kNoSyncWithStaticGraph;
  }
  if (cell.variant == "grad-but-last" && looks_for_unused(cell) && has_hooks(cell)) {
    return "find_unused_parameters does not see parameters inside of the function: "
           "grad-but-last-find-unused shows it";
  }
  return "";
}

/// What is inside of the tiled function: all that its backward may leave wrong.
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

/// The reduction is delayed to the end of the first backward, which makes that one right. From then
/// on the last tile's hook hands over what is in `.grad`: the gradient of that tile alone.
Expectation expect_static_graph_set_aside(const Cell& cell) {
  if (is_set(cell, "no_sync") && accumulates(cell)) return expect_error(ddp_error::kNotArmed);
  const std::int64_t first_wrong = accumulates(cell) ? 1 : 2;
  if (!has_hooks(cell) || cell.steps < first_wrong) return expect_hidden();
  const bool loses_tiles = number_on(cell, "tiles") > 1;
  if (!waits_for_others(cell)) {
    // The reduction ends inside of the last tile's backward, before the others come back.
    if (!loses_tiles) return expect_hidden();
    return expect_apart(cell, tiled_tensors(cell), parameters_move(cell), first_wrong);
  }
  if (is_set(cell, "bucket_view")) return expect_error(ddp_error::kNotBucketView, first_wrong);
  if (!loses_tiles && !accumulates(cell) && !is_set(cell, "prior")) return expect_hidden();
  return expect_alike_but_wrong(cell, tiled_tensors(cell), parameters_move(cell), first_wrong);
}

Expectation expect(const Cell& cell) {
  if (std::string reason = precondition_of(cell); !reason.empty()) {
    return expect_not_applicable(std::move(reason));
  }
  if (!is_faulty(cell)) return {};
  if (cell.variant == "backward-per-tile") return expect_backward_per_tile(cell);
  if (cell.variant == "static-graph-set-aside") return expect_static_graph_set_aside(cell);
  if (cell.variant == "grad-but-last-find-unused") {
    return has_hooks(cell) ? expect_error(ddp_error::kReadyTwice) : expect_hidden();
  }
  // The router's loss reaches the router and what is below it by no other way.
  if (cell.variant == "router-loss-dropped") {
    return expect_alike_but_wrong(cell, {"router.*", "below.*"});
  }
  // What is there before backward is a tensor of each parameter's own.
  if (cell.variant == "summed-weights-aliased" &&
      (number_on(cell, "tiles") == 1 || is_set(cell, "prior"))) {
    return expect_hidden();
  }
  return expect_alike_but_wrong(cell, tiled_tensors(cell));  // of one tile, or of aliases
}

std::vector<Variant> variants() {
  const std::vector<std::string> without_summed{"around",      "frozen",       "values",
                                                "find_unused", "static_graph", "dtype"};
  return {
      {.name = "backward-per-tile",
       .role = Role::buggy,
       .summary = "backward() for every tile, as it was first written",
       .without = {"static_graph"}},
      {.name = "grad-but-last",
       .role = Role::fixed,
       .summary = "the pull request: gradients of all tiles but the last without hooks"},
      {.name = "gated",
       .role = Role::fixed,
       .summary = "the same only where there are several ranks, as the pull request has it",
       .without = {"find_unused", "static_graph"}},
      {.name = "explicit-inputs",
       .role = Role::fixed,
       .summary = "the parameters are inputs of the function: gradients are returned once"},
      {.name = "static-graph-in-place",
       .role = Role::latent,
       .summary = "the error text's advice, a static graph, where tiles add to .grad in place: the "
                  "reducer counts the hooks and waits for the last",
       .without = {"static_graph"}},
      {.name = "static-graph-set-aside",
       .role = Role::wrong_fix,
       .summary = "the same advice where each tile's gradient is taken out of .grad: from the "
                  "second backward on the last tile's alone is reduced",
       .without = {"static_graph"}},
      {.name = "grad-but-last-find-unused",
       .role = Role::wrong_fix,
       .summary = "the pull request with find_unused_parameters, which does not see parameters "
                  "inside of a function",
       .without = {"find_unused", "static_graph"}},
      {.name = "one-tile-in-place",
       .role = Role::fixed,
       .summary = "the pull request with one tile and two micro-batches: nothing is lost",
       .reference = "reference-two-micro-batches",
       .without = {"tiles", "accumulation", "around", "frozen", "values", "prior", "find_unused",
                   "static_graph", "bucket"}},
      {.name = "one-tile-set-aside",
       .role = Role::wrong_fix,
       .summary = "what .grad held before comes back with the last tile but one: a single tile "
                  "loses the earlier micro-batches",
       .reference = "reference-two-micro-batches",
       .without = {"tiles", "accumulation", "around", "frozen", "values", "prior", "find_unused",
                   "static_graph", "bucket"}},
      {.name = "summed-weights-aliased",
       .role = Role::wrong_fix,
       .summary = "the pull request where a weight is a sum of two: the first tile's gradient, one "
                  "tensor, becomes the .grad of both, and each adds its later ones to it",
       .reference = "reference-summed-weights",
       .without = without_summed},
      {.name = "summed-weights-cloned",
       .role = Role::fixed,
       .summary = "the same with a copy of it for each",
       .reference = "reference-summed-weights",
       .without = without_summed},
      {.name = "router-loss-carried",
       .role = Role::fixed,
       .summary = "a second output, the router's probabilities, takes its gradient into the tiles",
       .reference = "reference-with-router",
       .without = {"around", "frozen", "values"}},
      {.name = "router-loss-dropped",
       .role = Role::wrong_fix,
       .summary = "the backward looks at the gradient of the first output alone",
       .reference = "reference-with-router",
       .without = {"around", "frozen", "values"}},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, no tiles: the mean of all shards' gradients",
       .without = {"tiles", "no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
      {.name = "reference-two-micro-batches",
       .role = Role::reference,
       .summary = "the same with two micro-batches",
       .without = {"tiles", "accumulation", "around", "frozen", "values", "prior", "no_sync",
                   "bucket_view", "find_unused", "static_graph", "bucket"}},
      {.name = "reference-summed-weights",
       .role = Role::reference,
       .summary = "the same with weights that are sums of two",
       .without = {"tiles", "around", "frozen", "values", "no_sync", "bucket_view", "find_unused",
                   "static_graph", "bucket", "dtype"}},
      {.name = "reference-with-router",
       .role = Role::reference,
       .summary = "the same with a router and its loss",
       .without = {"tiles", "around", "frozen", "values", "no_sync", "bucket_view", "find_unused",
                   "static_graph", "bucket"}},
  };
}

std::vector<Axis> axes() {
  return ddp_axes({
      {"tiles", {"1", "2", "3", "4", "8"}, "4"},
      {"length", {"8", "11"}, "8"},
      {"batch", {"1", "2"}, "2"},
      {"around", {"layers", "above", "nothing", "vision-language-model"}, "layers"},
      {"frozen", {"none", "gate", "all"}, "none"},
      {"values", {"drawn", "dyadic"}, "drawn"},
  });
}

}  // namespace

Scenario tiled_backward_fires_hooks_per_tile() {
  return {
      .id = "tiled-backward-fires-hooks-per-tile",
      .summary =
          "A tiled MLP calls backward() for every tile: gradient hooks of its parameters run "
          "once per tile, and DDP's reducer counts on once.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept =
                         "the tiled MLP, its backward before and after, the gate, adapters in a "
                         "vision-language model; the error text's advice",
                     .left_out = "Qwen3-VL and the GPUs: a small model of the same build"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
