// Ranks have shards of different sizes. DDP averages the gradients of the ranks' mean losses, so a
// row of a small shard counts more than a row of a large one. A trainer that expects the mean over
// the whole batch gets a different one.

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "harness/train/loop/published_shard.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

std::int64_t rows_of(int owner) { return 2 * (owner + 1); }

/// The rank's share of all rows, times the number of ranks that DDP divides by.
double weight_of(const Rank& rank, int owner) {
  std::int64_t rows = 0;
  for (int other = 0; other < rank.world_size(); ++other) rows += rows_of(other);
  return static_cast<double>(rows_of(owner) * rank.world_size()) / static_cast<double>(rows);
}

void mean_over_all_rows(Rank& rank, Module& model, std::int64_t step) {
  std::vector<at::Tensor> inputs, targets;
  for (int owner = 0; owner < rank.world_size(); ++owner) {
    const auto [input, target] = published_shard(rank, {owner, step}, rows_of(owner));
    inputs.push_back(input);
    targets.push_back(target);
  }
  mean_squared_error(model.forward(at::cat(inputs)), at::cat(targets)).backward();
}

void train(Rank& rank) {
  Linear model(4, 4, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  StepHooks hooks;
  hooks.loss = [&](const MicroBatch& batch) {
    const auto [input, target] = published_shard(rank, batch, rows_of(batch.owner));
    const at::Tensor loss = mean_squared_error(training.forward(input), target);
    rank.at_branch();
    return rank.has("weight", "rows") ? loss * weight_of(rank, batch.owner) : loss;
  };
  if (rank.is("reference-batch-mean")) {
    hooks.reference = [&](std::int64_t step) { mean_over_all_rows(rank, model, step); };
  }
  training.run(hooks);
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

Expectation expect_ranks_weighted_alike(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why =
      "a rank counts as much as any other: rank-means shows that nothing else is wrong";
  return expectation;
}

}  // namespace

Scenario uneven_shards_averaged_alike() {
  return {
      .summary =
          "Ranks have different numbers of rows, and DDP averages their mean losses: all agree on "
          "gradients that are not the mean over the batch.",
      .origin = {"SchmiedmayerLab", "pull request #49 (2026-06-27)",
                 "the toy script's model, seeds and learning rate",
                 "shards of four rows each: here each rank has two rows more than the one before"},
      .variants =
          {wrong_fix(
               "taken-for-batch-mean",
               "ranks have 2, 4, 6, ... rows; DDP's average is taken for the mean over the batch",
               "weight=none", expect_ranks_weighted_alike)
               .compared_with("reference-batch-mean"),
           fixed("weighted",
                 "each rank weights its loss by its rows: the mean over the whole batch",
                 "weight=rows")
               .compared_with("reference-batch-mean"),
           fixed("rank-means", "the mean of the ranks' means, as DDP promises", "weight=none")
               .compared_with("reference-rank-means"),
           reference("reference-batch-mean", "one process: the mean over all rows"),
           reference("reference-rank-means", "one process: the mean of the shards' means")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
