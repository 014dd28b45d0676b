// A tiled function has a second output, the router's probabilities, and the loss depends on both
// outputs. Its backward uses only the first output's gradient: the router's loss reaches neither
// the router nor the layer below.

#include <ATen/TensorOperators.h>

#include <memory>

#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/swiglu.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;
constexpr std::int64_t kHidden = 16;

/// An MLP and a router that weighs its output, between two layers.
class Routed : public Module {
 public:
  explicit Routed(const at::Generator& generator)
      : below_(register_module("below", std::make_shared<Linear>(kWidth, kWidth, generator))),
        mlp_(register_module("mlp", std::make_shared<SwiGlu>(kWidth, kHidden, generator))),
        router_(register_module("router", std::make_shared<Linear>(kWidth, 2, generator))),
        above_(register_module("above", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  /// From [batch, length, width] to the output and the router's probabilities. Null `tiling`:
  /// untiled.
  std::vector<at::Tensor> run(const at::Tensor& input, const TilingOptions* tiling) {
    const TileFunction routed = [this](const at::Tensor& rows) {
      const at::Tensor output = mlp_->forward(rows);
      const at::Tensor probabilities = router_->forward(rows).softmax(-1);
      return std::vector{output * probabilities.narrow(-1, 0, 1), probabilities};
    };
    std::vector<at::Tensor> parameters = mlp_->parameters();
    for (const at::Tensor& parameter : router_->parameters()) parameters.push_back(parameter);
    const at::Tensor hidden = below_->forward(input);
    std::vector<at::Tensor> outputs =
        tiling ? tiled(routed, parameters, hidden, *tiling) : routed(hidden);
    outputs.front() = above_->forward(outputs.front());
    return outputs;
  }

  at::Tensor forward(const at::Tensor& input) override { return run(input, nullptr).front(); }

 private:
  std::shared_ptr<Linear> below_;
  std::shared_ptr<SwiGlu> mlp_;
  std::shared_ptr<Linear> router_, above_;
};

void train(Rank& rank) {
  Routed model(cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  TilingOptions tiling = tiling_options(rank);
  tiling.carries_all_outputs = !rank.has("outputs", "first-alone");
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  Training training(rank, model, options);
  const std::vector<std::int64_t> shape{rank.number("batch"), rank.number("length"), kWidth};
  training.run({.loss = [&](const MicroBatch& batch) {
    if (!rank.is_reference()) rank.at_branch();
    const at::Tensor input = normal_input(rank, batch, 1'000'000, shape);
    const at::Tensor target = normal_input(rank, batch, 2'000'000, shape);
    const auto outputs =
        training.forward([&] { return model.run(input, rank.is_reference() ? nullptr : &tiling); });
    return (outputs.front() - target).pow(2).mean() + outputs.back().pow(2).mean();
  }});
}

std::string precondition(const Cell& cell) {
  if (std::string reason = refuse_ddp_of_one_rank(cell); !reason.empty()) return reason;
  if (is_faulty(cell) && is_set(cell, "dtype", "bfloat16")) return hidden_by_rounding(0.48);
  return refuse_no_sync_with_static_graph(cell);
}

Expectation expect_dropped(const Cell& cell) {
  return expect_alike_but_wrong(cell, {"router.*", "below.*"});
}

}  // namespace

Scenario second_output_dropped_by_tiles() {
  return {
      .summary =
          "The backward of a tiled function ignores every output gradient except the first: a "
          "router's loss reaches neither the router nor the layers below.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the tiled MLP with explicit inputs, and a router beside it",
                 "experts: the router weighs the output of one MLP"},
      .variants = {fixed("carried",
                         "the tiles also receive the gradient of the second output, the router's "
                         "probabilities",
                         "tile_backward=explicit-inputs outputs=all"),
                   wrong_fix("dropped", "backward uses the gradient of the first output only",
                             "tile_backward=explicit-inputs outputs=first-alone", expect_dropped),
                   reference("reference",
                             "one process, no tiles: the mean of all shards' gradients")},
      .worlds = worlds_from(1),
      .axes = tiled_axes(),
      .claims = replica_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
