// A weight is the sum of two parameters, so autograd gives both the same gradient tensor. A tiled
// backward that stores the first tile's gradients as `.grad` makes this tensor the `.grad` of both.
// Each then adds the later tiles to it: they count twice.

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <utility>

#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/mlp_between_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;

/// A linear layer with a parameter added to its weight.
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

void train(Rank& rank) {
  MlpBetweenLayers model(cpu_generator(rank.seed(0)));
  model.mlp().wrap_projections([](std::shared_ptr<Module> layer) {
    return std::make_shared<SummedLinear>(std::move(layer));
  });
  TilingOptions tiling = tiling_options(rank);
  tiling.clones_first_gradient = rank.has("first_gradient", "cloned");
  train_on_sequences(rank, model, kWidth, [&](const at::Tensor& input) {
    if (rank.is_reference()) return model.forward(input);
    rank.at_branch();
    return model.run(input,
                     [&](const at::Tensor& hidden) { return tiled(model.mlp(), hidden, tiling); });
  });
}

/// With prior gradients, each parameter already has its own tensor.
Expectation expect_aliased(const Cell& cell) {
  if (number_on(cell, "tiles") == 1 || is_set(cell, "prior")) return expect_hidden();
  return expect_alike_but_wrong(cell, {"mlp.*"});
}

std::vector<Axis> axes() {
  std::vector<Axis> axes = tiled_axes();
  std::erase_if(axes, [](const Axis& axis) {
    return axis.name == "find_unused" || axis.name == "static_graph" || axis.name == "dtype";
  });
  return axes;
}

}  // namespace

Scenario summed_weights_share_a_gradient() {
  return {
      .summary =
          "A weight is the sum of two parameters: a tiled backward gives both the same gradient "
          "tensor, and each adds the later tiles to it.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "the tiled MLP after the fix; weights that are sums, as merged adapters have them",
                 "Qwen3-VL and the GPUs"},
      .variants = {wrong_fix(
                       "aliased",
                       "both summands get one tensor as .grad, and each adds the later tiles to it",
                       "tile_backward=grad-but-last first_gradient=kept", expect_aliased),
                   fixed("cloned", "each summand gets a copy of the first tile's gradient",
                         "tile_backward=grad-but-last first_gradient=cloned"),
                   reference("reference",
                             "one process, no tiles: the mean of all shards' gradients")},
      .worlds = worlds_from(1),
      .axes = axes(),
      .claims = replica_claims(),
      .precondition = refuse_ddp_of_one_rank,
      .body = train,
  };
}

}  // namespace lockstep
