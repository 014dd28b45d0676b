// A tile is computed twice: in forward, and again in backward. Where the generator of its dropout
// is not put back, or not to where that tile began, backward drops other elements than forward did:
// the gradient is that of another function, and the same on all ranks. Autocast is such a state
// too: what was computed in bfloat16 is recomputed in float32.

#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include <optional>
#include <string_view>

#include "harness/train/autograd/autocast.h"
#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

bool computes_in_bfloat16(const Cell& cell) { return is_set(cell, "autocast"); }

/// Whether the state of `what`, "mask" or "autocast", is lost in a cell of `not-restored`.
bool is_lost(const Cell& cell, std::string_view what) {
  return is_set(cell, "lost", what) || is_set(cell, "lost", "both");
}

/// A tiled MLP with dropout between two layers. With a residual connection its input stays float32
/// under autocast, as in most transformers; without one it is bfloat16.
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

/// Where variants part: what a tile is recomputed with.
TilingOptions tiling_of(Rank& rank, Model& model) {
  TilingOptions tiling{.tiles = number_on(rank.cell(), "tiles"),
                       .backward = TileBackward::explicit_inputs,
                       .generators = {model.masks()}};
  if (rank.is("not-restored")) {
    if (is_lost(rank.cell(), "mask")) tiling.random = TileRandom::drawn_anew;
    tiling.restores_autocast = !is_lost(rank.cell(), "autocast");
  } else if (rank.is("first-mask-for-all")) {
    tiling.random = TileRandom::first_for_all;
  } else if (rank.is("restored")) {
    tiling.random = TileRandom::restored;
  }
  return tiling;
}

/// Without tiles; under autocast with them, since each tile's gradient is rounded to bfloat16
/// before they are added up.
at::Tensor run_reference(Rank& rank, Model& model, const at::Tensor& input) {
  rank.is("reference");
  if (!computes_in_bfloat16(rank.cell())) return model.forward(input);
  return model.run(input, [&](const at::Tensor& hidden) {
    std::vector<at::Tensor> outputs;
    for (const at::Tensor& rows :
         hidden.flatten(0, -2).tensor_split(number_on(rank.cell(), "tiles"))) {
      const AutocastScope own_casts(AutocastState{.is_enabled = true, .caches = false});
      outputs.push_back(model.mlp(rows));
    }
    return at::cat(outputs).view_as(hidden);
  });
}

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const TilingOptions tiling = tiling_of(rank, model);
  MicroBatchOptions options = micro_batch_options(rank.cell());
  // A step would round weights anew, and bfloat16 makes much of the last digit of a weight.
  if (computes_in_bfloat16(rank.cell())) options.learning_rate = 0;
  const std::vector<std::int64_t> shape{number_on(rank.cell(), "batch"),
                                        number_on(rank.cell(), "length"), kWidth};
  const auto draw = [&](const MicroBatch& batch, std::uint64_t base) {
    const at::Generator generator = cpu_generator(rank.seed(batch.seed(base)));
    const at::Tensor drawn =
        at::randn(shape, generator, at::TensorOptions()).to(dtype_of(rank.cell()));
    // Where a last digit decides how a number is rounded to bfloat16, it moves as much as the
    // fault: inputs are not perturbed. With weights that stay, only sums in float32 are in another
    // order.
    return computes_in_bfloat16(rank.cell()) ? drawn : rank.input(drawn);
  };
  const TileFunction mlp = [&model](const at::Tensor& rows) {
    return std::vector<at::Tensor>{model.mlp(rows)};
  };
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = draw(batch, 1'000'000);
    const at::Tensor target = draw(batch, 2'000'000);
    model.masks().set_current_seed(rank.seed(batch.seed(3'000'000)));
    std::optional<AutocastScope> autocast;
    if (computes_in_bfloat16(rank.cell())) autocast.emplace(at::kBFloat16);
    const auto forward = [&] {
      return std::vector<at::Tensor>{model.run(input, [&](const at::Tensor& hidden) {
        return tiled(mlp, model.mlp_parameters(), hidden, tiling).front();
      })};
    };
    const at::Tensor output =
        ddp ? ddp->forward(forward).front() : run_reference(rank, model, input);
    autocast.reset();
    return (output - target).pow(2).mean();
  });
}

Expectation expect(const Cell& cell) {
  const MicroBatchOptions options = micro_batch_options(cell);
  if (options.ddp.static_graph && options.no_sync && options.accumulation > 1) {
    return expect_not_applicable(kNoSyncWithStaticGraph);
  }
  const bool has_autocast = computes_in_bfloat16(cell);
  if (has_autocast && dtype_of(cell) != at::kFloat) {
    return expect_not_applicable("autocast is for parameters in float32");
  }
  if (!has_autocast && is_set(cell, "lost", "autocast")) {
    return expect_not_applicable("autocast cannot be lost where it is off");
  }
  if (!is_faulty(cell)) return {};
  if (is_set(cell, "dtype", "bfloat16")) return expect_not_applicable(hidden_by_rounding(0.08));
  if (is_set(cell, "lost", "autocast") && is_set(cell, "prior")) {
    return expect_not_applicable("what rounding changes is small beside a gradient from before");
  }
  if (cell.variant == "first-mask-for-all" && number_on(cell, "tiles") == 1) return expect_hidden();
  if (has_autocast && is_lost(cell, "autocast") && !is_set(cell, "residual")) {
    return expect_error("to have the same dtype");  // what is kept is bfloat16, the weights are not
  }
  // What is above the tiles has the gradient of the forward that was.
  Expectation expectation =
      expect_alike_but_wrong(cell, {"below.*", "mlp.*"}, /*parameters_move=*/!has_autocast);
  const bool loses_mask = !is_set(cell, "lost", "autocast");
  if (!loses_mask) expectation.pins.front().cosine.reset();  // rounding hardly turns it
  return expectation;
}

std::vector<Axis> axes() {
  return ddp_axes({
      {"tiles", {"1", "2", "3", "4", "8"}, "4"},
      {"length", {"8", "11"}, "8"},
      {"batch", {"1", "2"}, "2"},
      {"autocast", {"off", "on"}, "off"},
      {"residual", {"off", "on"}, "on"},
      {"lost", {"mask", "autocast", "both"}, "mask", {"not-restored"}},
  });
}

}  // namespace

Scenario recomputed_tile_draws_another_dropout_mask() {
  return {
      .id = "recomputed-tile-draws-another-dropout-mask",
      .summary =
          "A tile is recomputed in backward without the random numbers, or the autocast, of "
          "its forward: all ranks agree on the gradient of another function.",
      .provenance = {.project = "unsloth",
                     .link = "pull request #4240 (2026-03-12)",
                     .kept = "the tiled MLP, whose forward has an option to preserve random state",
                     .left_out = "global generators: the dropout has one of its own"},
      .worlds = worlds_from(2),
      .steps = 3,
      .axes = axes(),
      .variants =
          {
              {.name = "not-restored",
               .role = Role::buggy,
               .summary = "the generator, or autocast, is what it happens to be in backward"},
              {.name = "first-mask-for-all",
               .role = Role::wrong_fix,
               .summary = "every tile is recomputed with the random numbers of the first"},
              {.name = "restored",
               .role = Role::fixed,
               .summary = "every tile is recomputed with its own, and under its autocast"},
              {.name = "reference",
               .role = Role::reference,
               .summary = "one process that computes nothing twice: the mean of all shards' "
                          "gradients",
               .without = {"no_sync", "bucket_view", "find_unused", "static_graph", "bucket"}},
          },
      .claims = replica_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
