// A fix of the loss on the unwrapped module averages the gradients that each rank has. If ranks
// lack different ones, they average different tensors with each other, or the training aborts or
// hangs. The review asked for zeros instead of missing gradients.

#include <ATen/core/Tensor.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/published_shard.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/branches.h"

namespace lockstep {

namespace {

void train(Rank& rank) {
  Branches model({.differs = rank.text("differs")}, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            const auto [input, target] = published_shard(rank, batch);
            model.owner = batch.owner;
            return mean_squared_error(model.forward(input), target);
          },
      .reduce =
          [&](std::int64_t) {
            std::vector<at::Tensor> parameters = model.parameters();
            const auto lacks_gradient = [](const at::Tensor& parameter) {
              return !parameter.grad().defined();
            };
            rank.at_branch();
            if (rank.has("missing", "zeros")) fill_gradients(parameters);
            if (rank.has("missing", "skipped")) std::erase_if(parameters, lacks_gradient);
            average_each(rank.group(), parameters);
          },
  });
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

Expectation expect_skipped(const Cell& cell) {
  // Rank 0's smaller buffer receives more bytes than it holds, so Gloo aborts the process.
  if (is_set(cell, "differs", "other-sizes")) {
    // This scenario makes no claim about collectives.
    return {.raises = expect_sizes_differ(cell, 1, {}).raises, .symptom = SymptomKind::mismatched};
  }
  const std::string why = "another gradient, or one of the next step, is in the mean";
  Expectation expectation = pinned(
      expect_ranks_differ(),
      {{.claim = kGradientsAgree, .steps = {1}, .tensors = {"left.*", "right.*"}, .why = why},
       {.claim = kGradientsEqual, .steps = {1}, .tensors = {"left.*", "right.*"}, .why = why}});
  if (is_set(cell, "differs", "same-shapes")) {
    expectation.pins.back().attribution = GradientAttribution::mixture;
    return expectation;
  }
  // Rank 0 calls more all-reduces than the others, which then wait in the barrier.
  expectation.breaks.push_back(ranks_finish());
  expectation.symptom = SymptomKind::mismatched;
  return expectation;
}

}  // namespace

Scenario missing_gradients_skipped_in_reduction() {
  return {
      .summary =
          "A reduction by hand skips missing gradients, so different tensors are averaged "
          "together, or the training aborts or hangs.",
      .origin =
          {"SchmiedmayerLab", "pull request #49 (2026-06-27)",
           "the toy script's data, the repair's loop, the review's remark on missing gradients",
           "the script's model, whose gradients all exist: here a branch depends on the rank"},
      .variants =
          {wrong_fix("skip-missing",
                     "the pull request's loop, although ranks lack different gradients",
                     "missing=skipped", expect_skipped)
               .hanging(),
           fixed("all-reduce-zero-filled",
                 "the review: missing gradients become zeros, so all ranks reduce the same tensors",
                 "missing=zeros"),
           reference(
               "reference",
               "one process: the mean of all shards' gradients; a missing one counts as zeros")},
      .steps = 5,
      .axes = {optimizer_axis(),
               {"differs", {"same-shapes", "other-sizes", "other-counts"}, "same-shapes"}},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
