// A trainer averages its gradients by hand, but clips them first. Each rank divides by the norm of
// its own gradients, and the mean of clipped gradients is not the clipped mean. Ranks agree on
// gradients of wrong direction and size.

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/published_shard.h"
#include "harness/train/loop/training.h"
#include "harness/train/optim/clip_grad_norm.h"

namespace lockstep {

namespace {

constexpr double kMaxNorm = 0.25;  // below the norm of any rank's gradients, so that clipping acts

void train(Rank& rank) {
  Linear model(4, 4, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  const auto clip = [&] { clip_grad_norm(model.parameters(), kMaxNorm); };
  const auto loss = [&](const MicroBatch& batch) {
    const auto [input, target] = published_shard(rank, batch);
    return mean_squared_error(model.forward(input), target);
  };
  training.run({
      .loss = loss,
      .reference =
          [&](std::int64_t step) {
            rank.mean_of_rank_gradients(model, [&](int owner) { return loss({owner, step}); });
            clip();
          },
      .reduce =
          [&](std::int64_t) {
            rank.at_branch();
            if (rank.has("clipped", "before")) clip();
            average_each(rank.group(), model.parameters());
            if (rank.has("clipped", "after")) clip();
          },
  });
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

Expectation expect_clipped_apart(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = "each rank's gradients shrink by their own norm";
  return expectation;
}

}  // namespace

Scenario gradients_clipped_before_reduction() {
  return {
      .summary =
          "Each rank clips its gradients before they are averaged: all ranks agree, but not on the "
          "clipped mean.",
      .origin = {"SchmiedmayerLab", "pull request #49 (2026-06-27)",
                 "the toy script, its repair by an all-reduce per gradient, the trainer's clipping",
                 "the trainer: loss-on-unwrapped-module-pipeline. The wrong order is ours"},
      .variants =
          {wrong_fix("clipped-before", "each rank clips its own gradients, then they are averaged",
                     "clipped=before", expect_clipped_apart),
           fixed("clipped-after", "all-reduce, then clip: all ranks clip by the norm of the mean",
                 "clipped=after"),
           reference("reference",
                     "one process: the mean of all shards' gradients, clipped by its norm")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
