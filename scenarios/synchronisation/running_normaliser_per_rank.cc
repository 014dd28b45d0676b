// A policy normalises its inputs by their running mean and variance. These are buffers, which the
// trainer updates from each rank's own inputs and no reduction of gradients touches. So ranks
// compute the gradients of different models, and average them. Merging the ranks' statistics has
// traps of its own: the variance between ranks, and a history that all ranks share.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

/// A part of the inputs: their number, and the mean and the variance of each feature.
struct Moments {
  at::Tensor count, mean, variance;
};

Moments moments_of(const at::Tensor& rows) {
  return {at::ones({}, rows.options()) * rows.size(0), rows.mean(0), rows.var(0, false)};
}

/// The moments of `parts` together, one in each row: [parts, 1 + 2 * kInputs]. Their variance is
/// the mean of the parts' variances, and that between the parts.
Moments merged(const at::Tensor& parts, bool has_between = true) {
  const at::Tensor counts = parts.narrow(1, 0, 1);
  const at::Tensor means = parts.narrow(1, 1, kInputs);
  const at::Tensor variances = parts.narrow(1, 1 + kInputs, kInputs);
  const at::Tensor count = counts.sum();
  const at::Tensor mean = (counts * means).sum(0) / count;
  const at::Tensor between = (means - mean).pow(2) * (has_between ? 1 : 0);
  return {count, mean, (counts * (variances + between)).sum(0) / count};
}

at::Tensor as_row(const Moments& moments) {
  return at::cat({moments.count.view({1}), moments.mean, moments.variance}).unsqueeze(0);
}

/// Inputs are normalised by all that came before, and by those of the step.
class Normalised : public Module {
 public:
  explicit Normalised(const at::Generator& generator)
      : count_(register_buffer("count", at::zeros({}))),
        mean_(register_buffer("mean", at::zeros({kInputs}))),
        variance_(register_buffer("variance", at::ones({kInputs}))),
        layers_(register_module("layers",
                                std::make_shared<TwoLayers>(kInputs, 5, kOutputs, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return (*layers_)((input - mean_) / (variance_ + 1e-5).sqrt());
  }

  Moments history() const { return {count_, mean_, variance_}; }
  void set_history(const Moments& moments) {
    count_.copy_(moments.count);
    mean_.copy_(moments.mean);
    variance_.copy_(moments.variance);
  }
  void add(const Moments& moments) {
    set_history(merged(at::cat({as_row(history()), as_row(moments)})));
  }

 private:
  at::Tensor count_, mean_, variance_;
  std::shared_ptr<TwoLayers> layers_;
};

/// All ranks' `own`, as one part of the inputs.
Moments of_all_ranks(Rank& rank, const Moments& own, bool has_between = true) {
  at::Tensor row = as_row(own);
  at::Tensor rows = row.repeat({rank.world_size(), 1});
  rank.group().all_gather(rows, row);
  return merged(rows, has_between);
}

/// Each rank's environments are in another state.
at::Tensor inputs_of(Rank& rank, const MicroBatch& batch) {
  const Regression shape = regression_of_rank(batch.owner, kInputs, kOutputs);
  return normal_input(rank, batch, shape.inputs_base, {shape.rows[0], kInputs}) + batch.owner;
}

void update_statistics(Rank& rank, Normalised& model, std::int64_t step) {
  if (rank.is_reference()) {
    std::vector<at::Tensor> parts;
    for (int owner = 0; owner < rank.world_size(); ++owner) {
      parts.push_back(as_row(moments_of(inputs_of(rank, {owner, step}))));
    }
    return model.add(merged(at::cat(parts)));
  }
  const Moments own = moments_of(inputs_of(rank, {rank.rank(), step}));
  rank.at_branch();
  if (rank.has("merged", "batches")) return model.add(of_all_ranks(rank, own));
  if (rank.has("merged", "within-ranks")) return model.add(of_all_ranks(rank, own, false));
  model.add(own);
  if (rank.has("merged", "totals")) model.set_history(of_all_ranks(rank, model.history()));
}

void train(Rank& rank) {
  Normalised model(cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({
      .before = [&](std::int64_t step) { update_statistics(rank, model, step); },
      .loss =
          [&](const MicroBatch& batch) {
            const at::Tensor input = inputs_of(rank, batch);
            // DDP broadcasts buffers in its forward, before this one's.
            const at::Tensor output = training.forward([&] {
              if (batch.owner == rank.rank()) rank.observe_buffers(Phase::pre_forward, model);
              return model(input);
            });
            const at::Tensor target = normal_input(rank, batch, 500'000, {input.size(0), kOutputs});
            return (output - target).pow(2).mean();
          },
  });
}

Expectation expect_wrong_statistics(const Cell& cell, Pin pin) {
  pin.claim = kBuffersEqual;
  pin.last_step = cell.steps;
  pin.groups = each_alone(cell);
  return pinned({.breaks = {kBuffersEqual, kGradientsEqual, kParametersEqual},
                 .symptom = SymptomKind::agree_but_wrong},
                {pin});
}

/// The count is the first buffer. Rank 0 has 2 of the 2 + 3 + 4 + ... rows.
Pin rank_0_alone(const Cell& cell) {
  const double ranks = cell.world_size;
  return {.steps = {1},
          .tensors = {"count", "mean", "variance"},
          .ratio = about(2 / (2 * ranks + ranks * (ranks - 1) / 2))};
}

Expectation expect_own_statistics(const Cell& cell) {
  Expectation expectation = expect_wrong_statistics(cell, rank_0_alone(cell));
  expectation.breaks.push_back(kBuffersAgree);
  expectation.pins.push_back({.claim = kBuffersAgree,
                              .steps = {1},
                              .last_step = cell.steps,
                              .tensors = {"count", "mean", "variance"},
                              .groups = each_alone(cell)});
  expectation.symptom = SymptomKind::ranks_differ;
  return expectation;
}

Expectation expect_statistics_of_rank_0(const Cell& cell) {
  return expect_wrong_statistics(cell, rank_0_alone(cell));
}

/// Only the variance is wrong, and too small.
Expectation expect_no_variance_between_ranks(const Cell& cell) {
  return expect_wrong_statistics(cell,
                                 {.steps = {1}, .tensors = {"variance"}, .ratio = Range{0, 0.99}});
}

/// Step 1 has no history. Each rank counts that of step 2 as its own: with N rows in a step,
/// W * N + N in place of N + N. Later, the history only grows.
Expectation expect_history_counted_per_rank(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  return expect_wrong_statistics(cell, {.steps = {2},
                                        .tensors = {"count", "mean", "variance"},
                                        .ratio = about((cell.world_size + 1) / 2.0)});
}

}  // namespace

Scenario running_normaliser_per_rank() {
  return {
      .summary =
          "Running mean and variance of the inputs are each rank's own, and gradients are "
          "averaged: "
          "they are those of different models.",
      .origin = {"rl_games, rsl_rl",
                 "Denys88/rl_games#363 (2026-08-05); leggedrobotics/rsl_rl#226 (2026-08-20)",
                 "the trainer's update before the forward pass; batches of unequal size, whose "
                 "moments are merged with the variance between ranks; totals that are merged "
                 "again, which rl_games' request warns of",
                 "reinforcement learning: here a regression; float64, and values that are "
                 "normalised, too"},
      .variants =
          {buggy("own-statistics", "each rank's buffers follow its own inputs",
                 "wrapper=by-hand "
                 "merged=none",
                 expect_own_statistics),
           wrong_fix("statistics-of-rank-0",
                     "DDP's forward broadcasts rank 0's buffers, which saw only rank 0's inputs",
                     "wrapper=ddp merged=none", expect_statistics_of_rank_0),
           wrong_fix("variances-averaged",
                     "means and variances are averaged, without the variance between ranks",
                     "wrapper=by-hand merged=within-ranks", expect_no_variance_between_ranks),
           wrong_fix("totals-merged",
                     "the totals are merged in each step: a shared history counts once per rank",
                     "wrapper=by-hand merged=totals", expect_history_counted_per_rank),
           fixed("batches-merged", "the moments of the ranks' batches are merged, then added",
                 "wrapper=by-hand merged=batches"),
           fixed("batches-merged-under-ddp", "the same in a model that DDP wraps",
                 "wrapper=ddp merged=batches"),
           reference("reference", "one process: the inputs of all ranks")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = claims_before({kBuffersAgree, kBuffersEqual}, replica_claims()),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
