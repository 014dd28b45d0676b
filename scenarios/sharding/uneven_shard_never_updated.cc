// Parameters are sharded by rows, in as many as the number of ranks allows, and the last shards are
// shorter. An optimizer that keeps gradients in memory of its own makes it from a shape that it
// infers, and passes over what does not fit, as it has to where a rank holds nothing at all. What
// is shorter than inferred is never updated, on that rank alone and without a word.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/sharded_training.h"
#include "harness/train/optim/optimizer.h"
#include "harness/train/rank/rank.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 4;
constexpr std::int64_t kLeastOutputs = 12;
constexpr std::int64_t kRows = 5;
constexpr double kLearningRate = 0.05;

std::int64_t rounded_up(std::int64_t rows, std::int64_t ranks) {
  return (rows + ranks - 1) / ranks;
}

/// So many that all ranks have as many of them.
std::int64_t outputs_of(const Cell& cell) {
  return rounded_up(kLeastOutputs, cell.world_size) * cell.world_size;
}

/// A layer of any number of rows below one that is cut evenly.
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

/// How many rows this rank is taken to have of a parameter.
using RowsOf = std::function<std::int64_t(const NamedShard& shard)>;

/// SGD that takes gradients out of the model first, into memory that is made once: gradients of the
/// step before stay there while the next are computed.
class OffloadedSgd {
 public:
  OffloadedSgd(std::vector<NamedShard> shards, const RowsOf& rows_of) : shards_(std::move(shards)) {
    for (const NamedShard& shard : shards_) {
      std::vector<std::int64_t> shape = shard.place.global_shape;
      shape.front() = rows_of(shard);
      kept_.push_back(at::empty(shape, shard.tensor.options()));
    }
  }

  void step() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      at::Tensor& shard = shards_[i].tensor;
      const bool is_held = shard.grad().defined() && shard.sizes() == kept_[i].sizes();
      if (!is_held) continue;  // this rank has nothing of it
      kept_[i].copy_(shard.grad());
      shard.sub_(kept_[i], kLearningRate);
    }
  }

 private:
  std::vector<NamedShard> shards_;
  std::vector<at::Tensor> kept_;
};

/// Where variants part.
RowsOf rows_of(Rank& rank) {
  const std::int64_t ranks = rank.world_size();
  if (rank.is("rows-rounded-up")) {
    return [ranks](const NamedShard& shard) {
      return rounded_up(shard.place.global_shape.front(), ranks);
    };
  }
  if (rank.is("rows-rounded-down")) {
    return [ranks](const NamedShard& shard) { return shard.place.global_shape.front() / ranks; };
  }
  rank.is("rows-from-global-shape");
  return [ranks](const NamedShard& shard) {
    const std::int64_t rows = shard.place.global_shape.front();
    return std::min(rounded_up(rows, ranks), rows - shard.place.offset.front());
  };
}

at::Tensor loss_of(Rank& rank, const MicroBatch& batch, Model& model) {
  return squared_error(rank, batch, model, {kRows}, kInputs, outputs_of(rank.cell()));
}

void train(Rank& rank) {
  const MicroBatchOptions options{.learning_rate = kLearningRate};
  Model model(rank.cell(), cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  if (rank.is("reference")) {
    return train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto*) {
      return loss_of(rank, batch, model);
    });
  }
  FullyShard sharded(model, {model.below.get()}, rank.group());
  OffloadedSgd optimizer(sharded.shards(), rows_of(rank));
  train_sharded(
      rank, sharded, options, [&](const MicroBatch& batch) { return loss_of(rank, batch, model); },
      [&] { optimizer.step(); });
}

/// Whether some rank has rows, and not as many as it is taken to have.
bool is_passed_over(const Cell& cell) {
  const std::int64_t rows = number_on(cell, "rows");
  const std::int64_t most = rounded_up(rows, cell.world_size);
  if (cell.variant == "rows-rounded-up") return rows % most != 0;
  return rows % cell.world_size != 0;
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
  return is_passed_over(cell) ? expect_wrong_updates(cell, {"below.*"}) : expect_hidden();
}

std::vector<Variant> variants() {
  return {
      {.name = "rows-rounded-up",
       .role = Role::buggy,
       .summary = "FSDP2: a shard is taken to have rows / ranks, rounded up: a shorter last one "
                  "is passed over as if it were none"},
      {.name = "rows-rounded-down",
       .role = Role::wrong_fix,
       .summary = "FSDP2: rounded down instead: the last one may fit, and the first ones are "
                  "passed over"},
      {.name = "rows-from-global-shape",
       .role = Role::fixed,
       .summary = "FSDP2: what is left of the global shape from the shard's own offset on"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: the mean of all ranks' gradients"},
  };
}

}  // namespace

Scenario uneven_shard_never_updated() {
  return {
      .id = "uneven-shard-never-updated",
      .summary =
          "The size of a shard is inferred from the number of ranks: one that is shorter "
          "counts as none and is never updated, while gradients are right.",
      .provenance = {.project = "PyTorch",
                     .link = "issues #176076 (2026-02-28) and #110762 (2023-10-06)",
                     .kept = "row-wise shards whose last one is shorter and never updated, and a "
                             "shape that is inferred as if shards were even; the repair, which "
                             "passes the global shape",
                     .left_out = "tied weights in two groups, which made torch infer it, and "
                                 "DTensor: the optimizer infers the shape here"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = {{"rows", {"5", "7", "9", "12"}, "7"}, {"dtype", {"float32", "float64"}, "float32"}},
      .variants = variants(),
      .claims = sharded_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
