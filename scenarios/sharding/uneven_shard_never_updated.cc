// Parameters are sharded by rows over as many ranks as there are rows for, and the last shards are
// shorter. An optimizer stores gradients in its own memory, with an inferred shape. It skips any
// shard of another shape, as it must on a rank without rows. So a shorter shard is silently never
// updated, on that rank alone.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <utility>

#include "harness/train/loop/training.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 4;
constexpr std::int64_t kLeastOutputs = 12;
constexpr std::int64_t kRows = 5;

std::int64_t rounded_up(std::int64_t rows, std::int64_t ranks) {
  return (rows + ranks - 1) / ranks;
}

/// A multiple of the number of ranks, so that all ranks have equally many.
std::int64_t outputs_of(const Cell& cell) {
  return rounded_up(kLeastOutputs, cell.world_size) * cell.world_size;
}

/// A layer with any number of rows, below one that is cut evenly.
struct Model : Module {
  Model(const Cell& cell, const at::Generator& generator)
      : below(register_module(
            "below", std::make_shared<Linear>(kInputs, number_on(cell, "rows"), generator))),
        above(register_module("above", std::make_shared<Linear>(number_on(cell, "rows"),
                                                                outputs_of(cell), generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return (*above)(at::tanh((*below)(input)));
  }

  std::shared_ptr<Linear> below, above;
};

/// The number of this rank's rows of a parameter, as the optimizer infers it.
std::int64_t inferred_rows(const Rank& rank, const Shard& place) {
  const std::int64_t rows = place.global_shape.front();
  const std::int64_t ranks = rank.world_size();
  if (rank.has("inferred", "rounded-up")) return rounded_up(rows, ranks);
  if (rank.has("inferred", "rounded-down")) return rows / ranks;
  return std::min(rounded_up(rows, ranks), rows - place.offset.front());
}

/// SGD that first moves gradients into memory allocated once. Gradients of a step stay there while
/// the next are computed.
class OffloadedSgd {
 public:
  OffloadedSgd(const Rank& rank, std::vector<NamedShard> shards) : shards_(std::move(shards)) {
    for (const NamedShard& shard : shards_) {
      std::vector<std::int64_t> shape = shard.place.global_shape;
      shape.front() = inferred_rows(rank, shard.place);
      kept_.push_back(at::empty(shape, shard.tensor.options()));
    }
  }

  void step(double learning_rate) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      at::Tensor& shard = shards_[i].tensor;
      const bool is_held = shard.grad().defined() && shard.sizes() == kept_[i].sizes();
      if (!is_held) continue;  // assumes that this rank has no rows of it
      kept_[i].copy_(shard.grad());
      shard.sub_(kept_[i], learning_rate);
    }
  }

 private:
  std::vector<NamedShard> shards_;
  std::vector<at::Tensor> kept_;
};

void train(Rank& rank) {
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  model.to(rank.device());
  StepHooks hooks{.loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, model, {kRows}, kInputs, outputs_of(rank.cell()));
  }};
  if (rank.is_reference()) return Training(rank, model).run(hooks);
  FullyShard sharded(model, {model.below.get()}, rank.group());
  Training training(rank, model, {}, &sharded);
  rank.at_branch();
  OffloadedSgd optimizer(rank, sharded.shards());
  hooks.update = [&](std::int64_t) { optimizer.step(training.options().learning_rate); };
  training.run(hooks);
}

Expectation expect_passed_over(const Cell& cell, bool is_passed_over) {
  return is_passed_over ? expect_wrong_updates(cell, {"below.*"}) : expect_hidden();
}

/// The last rank with rows has fewer than the others.
Expectation expect_last_passed_over(const Cell& cell) {
  const std::int64_t rows = number_on(cell, "rows");
  return expect_passed_over(cell, rows % rounded_up(rows, cell.world_size) != 0);
}

/// The first ranks have more rows than the quotient.
Expectation expect_first_passed_over(const Cell& cell) {
  return expect_passed_over(cell, number_on(cell, "rows") % cell.world_size != 0);
}

}  // namespace

Scenario uneven_shard_never_updated() {
  return {
      .summary =
          "Shard sizes are computed as if all were equal: a shorter shard counts as missing and is "
          "never updated, although its gradient is right.",
      .origin =
          {"PyTorch", "issues #176076 (2026-02-28) and #110762 (2023-10-06)",
           "shards by rows, the last one shorter, an inferred shape; the global shape as repair",
           "DTensor, and the tied weights that made torch infer the shape: the optimizer does"},
      .variants = {buggy("rows-rounded-up",
                         "FSDP2: the shard size is rounded up, so a shorter last shard is skipped",
                         "inferred=rounded-up", expect_last_passed_over),
                   wrong_fix(
                       "rows-rounded-down",
                       "FSDP2: the shard size is rounded down, so the first shards are skipped",
                       "inferred=rounded-down", expect_first_passed_over),
                   fixed(
                       "rows-from-global-shape",
                       "FSDP2: the shard size follows from the global shape and the shard's offset",
                       "inferred=from-global-shape"),
                   reference("reference", "one process: the mean of all ranks' gradients")},
      .worlds = worlds_from(1),
      .axes = {{"rows", {"5", "7", "9", "12"}, "7"}, dtype_axis()},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
