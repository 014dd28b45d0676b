// A trainer computes the loss on the module inside the DDP wrapper and averages the gradients by
// hand. The wrapper's forward would also have broadcast rank 0's buffers. Without it, every rank
// keeps the running statistics of its own shard.

#include <ATen/core/Tensor.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/published_shard.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

class Normalised : public Module {
 public:
  explicit Normalised(const at::Generator& generator)
      : norm_(register_module("norm", std::make_shared<BatchNorm1d>(4))),
        linear_(register_module("linear", std::make_shared<Linear>(4, 4, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return linear_->forward(norm_->forward(input));
  }

 private:
  std::shared_ptr<BatchNorm1d> norm_;
  std::shared_ptr<Linear> linear_;
};

/// Runs forward through the wrapper, unless the variant bypasses it.
at::Tensor forward(Rank& rank, Training& training, Module& model, const at::Tensor& input) {
  const auto observed_forward = [&] {
    if (!rank.is_reference()) rank.observe_buffers(Phase::pre_forward, model);
    return model(input);
  };
  return rank.has("loss", "on-module") ? observed_forward() : training.forward(observed_forward);
}

void train(Rank& rank) {
  Normalised model(cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            const auto [input, target] = published_shard(rank, batch);
            return mean_squared_error(forward(rank, training, model, input), target);
          },
      .reduce =
          [&](std::int64_t) {
            rank.at_branch();
            if (rank.has("loss", "on-module")) average_each(rank.group(), model.parameters());
          },
  });
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

/// All ranks start with the same buffers.
Expectation expect_buffers_apart(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  return pinned({.breaks = {kBuffersAgree}, .symptom = SymptomKind::ranks_differ},
                {{.claim = kBuffersAgree,
                  .steps = {2},
                  .last_step = cell.steps,
                  .tensors = {"norm.running_mean", "norm.running_var"},
                  .groups = each_alone(cell)}});
}

}  // namespace

Scenario buffers_not_broadcast_by_hand_reduction() {
  return {
      .summary =
          "A trainer averages gradients by hand but not buffers, which DDP's forward broadcasts: "
          "each rank keeps the running statistics of its own data.",
      .origin = {"SchmiedmayerLab", "pull request #49 (2026-06-27)",
                 "the toy script's data, learning rate and repair: an all-reduce per gradient",
                 "the script's model, which has no buffers: here a BatchNorm precedes it"},
      .variants =
          {wrong_fix("buffers-left-behind",
                     "gradients are averaged by hand, but BatchNorm's buffers are not broadcast",
                     "loss=on-module", expect_buffers_apart),
           fixed("through-wrapper",
                 "the loss on the wrapper, which broadcasts the buffers and averages the gradients",
                 "loss=on-wrapper"),
           reference("reference", "one process: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = claims_before(replica_claims(), {kBuffersAgree}),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
