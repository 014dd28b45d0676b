// A tile is computed twice: in forward, and again in backward. If its dropout generator is not
// restored to the start of that tile, backward drops other elements than forward. The gradient is
// that of another function, and the same on all ranks. Autocast has the same problem: a bfloat16
// computation is recomputed in float32.

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include <array>
#include <optional>
#include <string_view>

#include "harness/train/autograd/autocast.h"
#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

bool computes_in_bfloat16(const Cell& cell) { return is_set(cell, "autocast"); }

/// Whether `state`, "mask" or "autocast", is lost in a cell of `not-restored`.
bool is_lost(const Cell& cell, std::string_view state) {
  return is_set(cell, "lost", state) || is_set(cell, "lost", "both");
}

/// A tiled MLP with dropout between two layers. Under autocast its input stays float32 with a
/// residual connection, as in most transformers, and is bfloat16 without one.
class Model : public Module {
 public:
  Model(const Cell& cell, const at::Generator& generator)
      : is_residual_(is_set(cell, "residual")),
        masks_(cpu_generator(0)),
        below_(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        mlp_(register_module("mlp", std::make_shared<SwiGlu>(kWidth, kHidden, generator))),
        dropout_(register_module("dropout", std::make_shared<Dropout>(0.25, masks_))),
        above_(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  /// The generator of the dropout.
  at::Generator& masks() { return masks_; }

  /// [batch, length, width]; `run_mlp` runs `mlp`.
  at::Tensor run(const at::Tensor& input,
                 const std::function<at::Tensor(const at::Tensor& hidden)>& run_mlp) {
    const at::Tensor hidden = below_->forward(input);
    return above_->forward(run_mlp(is_residual_ ? input + hidden : hidden));
  }

  at::Tensor forward(const at::Tensor& input) override {
    return run(input, [this](const at::Tensor& hidden) { return mlp(hidden); });
  }

  at::Tensor mlp(const at::Tensor& rows) { return dropout_->forward(mlp_->forward(rows)); }
  std::vector<at::Tensor> mlp_parameters() const { return mlp_->parameters(); }

 private:
  bool is_residual_;
  at::Generator masks_;
  std::shared_ptr<Linear> below_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<Linear> above_;
};

/// Options for recomputing a tile.
TilingOptions tiling_of(Rank& rank, Model& model) {
  rank.at_branch();
  TilingOptions tiling = tiling_options(rank);
  tiling.generators = {model.masks()};
  if (rank.has("recomputed", "with-first-mask")) tiling.random = TileRandom::first_for_all;
  if (!rank.has("recomputed", "as-it-happens")) return tiling;
  if (is_lost(rank.cell(), "mask")) tiling.random = TileRandom::drawn_anew;
  tiling.restores_autocast = !is_lost(rank.cell(), "autocast");
  return tiling;
}

/// Runs without tiles, except under autocast: there each tile's gradient is rounded to bfloat16
/// before the sum.
at::Tensor run_reference(Rank& rank, Model& model, const at::Tensor& input) {
  if (!computes_in_bfloat16(rank.cell())) return model.forward(input);
  return model.run(input, [&](const at::Tensor& hidden) {
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& rows : hidden.flatten(0, -2).tensor_split(rank.number("tiles"))) {
      const AutocastScope own_casts(AutocastState{.is_enabled = true, .caches = false});
      outputs.push_back(model.mlp(rows));
    }
    return at::cat(outputs).view_as(hidden);
  });
}

/// Normal numbers. Under autocast they are not perturbed: a last digit that decides a rounding to
/// bfloat16 moves the gradient as much as the fault. With fixed weights, float32 sums differ only
/// by their order.
at::Tensor draw(Rank& rank, const MicroBatch& batch, std::uint64_t base) {
  const std::array<std::int64_t, 3> shape{rank.number("batch"), rank.number("length"), kWidth};
  if (!computes_in_bfloat16(rank.cell())) return normal_input(rank, batch, base, shape);
  return at::randn(shape, cpu_generator(rank.seed(batch.seed(base))), at::TensorOptions())
      .to(rank.device());
}

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  TrainingOptions options = training_options(rank);
  // A step would round the weights anew, and bfloat16 amplifies the last digit of a weight.
  if (computes_in_bfloat16(rank.cell())) options.learning_rate = 0;
  Training training(rank, model, options);
  const TileFunction mlp = [&](const at::Tensor& rows) { return std::vector{model.mlp(rows)}; };
  const auto run_tiled = [&](const at::Tensor& input) {
    const TilingOptions tiling = tiling_of(rank, model);
    return model.run(input, [&](const at::Tensor& hidden) {
      return tiled(mlp, model.mlp_parameters(), hidden, tiling).front();
    });
  };
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor input = draw(rank, batch, 1'000'000);
    const at::Tensor target = draw(rank, batch, 2'000'000);
    model.masks().set_current_seed(rank.seed(batch.seed(3'000'000)));
    std::optional<AutocastScope> autocast;
    if (computes_in_bfloat16(rank.cell())) autocast.emplace(at::kBFloat16);
    const at::Tensor output = rank.is_reference()
                                  ? run_reference(rank, model, input)
                                  : training.forward([&] { return run_tiled(input); });
    autocast.reset();
    return (output - target).pow(2).mean();
  }});
}

std::string precondition(const Cell& cell) {
  if (has_no_sync_with_static_graph(cell)) return kNoSyncWithStaticGraph;
  const bool has_autocast = computes_in_bfloat16(cell);
  if (has_autocast && dtype_of(cell) != at::kFloat) return "autocast is for parameters in float32";
  if (!has_autocast && is_set(cell, "lost", "autocast")) {
    return "autocast cannot be lost where it is off";
  }
  return "";
}

/// Parameters above the tiles have the right gradient, because forward is right.
Expectation expect_other_function(const Cell& cell) {
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.08));
  const bool parameters_move = !computes_in_bfloat16(cell);
  return expect_alike_but_wrong(cell, {"below.*", "mlp.*"}, parameters_move);
}

Expectation expect_first_mask(const Cell& cell) {
  Expectation expectation = expect_other_function(cell);
  const bool is_hidden = expectation.not_applicable.empty() && number_on(cell, "tiles") == 1;
  return is_hidden ? expect_hidden() : expectation;
}

Expectation expect_not_restored(const Cell& cell) {
  const bool loses_mask = !is_set(cell, "lost", "autocast");
  Expectation expectation = expect_other_function(cell);
  if (!expectation.not_applicable.empty()) return expectation;
  if (!loses_mask && is_set(cell, "prior")) {
    return expect_not_applicable("what rounding changes is small beside a gradient from before");
  }
  if (computes_in_bfloat16(cell) && is_lost(cell, "autocast") && !is_set(cell, "residual")) {
    return expect_error("to have the same dtype");  // the saved input is bfloat16, weights are not
  }
  if (!loses_mask) expectation.pins.front().cosine.reset();  // rounding hardly turns it
  return expectation;
}

std::vector<Axis> axes() {
  std::vector<Axis> axes = tiled_axes({
      switch_axis("autocast"),
      {"residual", {"off", "on"}, "on"},
      {"lost", {"mask", "autocast", "both"}, "mask", {"not-restored"}},
  });
  axes.front().in_reference = true;  // `tiles`: under autocast the reference is tiled
  return axes;
}

}  // namespace

Scenario recomputed_tile_draws_another_dropout_mask() {
  return {
      .summary =
          "Backward recomputes a tile without the random numbers, or the autocast, of its forward: "
          "all ranks agree on the gradient of another function.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the tiled MLP, whose forward has an option to preserve random state",
                 "global generators: the dropout has one of its own"},
      .variants =
          {buggy("not-restored",
                 "backward uses the current generator state and autocast, not those of forward",
                 "tile_backward=explicit-inputs recomputed=as-it-happens", expect_not_restored),
           wrong_fix("first-mask-for-all",
                     "every tile is recomputed with the random numbers of the first one",
                     "tile_backward=explicit-inputs recomputed=with-first-mask", expect_first_mask),
           fixed("restored", "every tile is recomputed with its own random numbers and autocast",
                 "tile_backward=explicit-inputs recomputed=as-in-forward"),
           reference("reference",
                     "one process without recomputation: the mean of all shards' gradients")},
      .axes = axes(),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
