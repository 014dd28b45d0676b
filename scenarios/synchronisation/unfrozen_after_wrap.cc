// A trainer fine-tunes the head of a model first and unfreezes the backbone later.
// DistributedDataParallel registers the parameters that require a gradient when it is made. So the
// backbone's gradients are never reduced: each rank trains a backbone of its own, below a head
// whose gradients all ranks share.

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kRows = 4;
constexpr std::int64_t kUnfreezingStep = 2;

class Classifier : public Module {
 public:
  explicit Classifier(const at::Generator& generator)
      : backbone(register_module("backbone", std::make_shared<Linear>(kWidth, kWidth, generator))),
        head(register_module("head", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return head->forward(backbone->forward(input).tanh());
  }

  std::shared_ptr<Linear> backbone, head;
};

void unfreeze(const Module& module) {
  for (const at::Tensor& parameter : module.parameters()) parameter.set_requires_grad(true);
}

void train(Rank& rank) {
  Classifier model(cpu_generator(rank.seed(0)));
  const bool is_registered = rank.has("frozen", "after-wrap");
  if (!is_registered) model.backbone->freeze();
  Training training(rank, model, training_options(rank));
  if (is_registered) model.backbone->freeze();
  rank.at_branch();
  training.run({
      .before =
          [&](std::int64_t step) {
            if (step != kUnfreezingStep) return;
            unfreeze(*model.backbone);
            if (rank.has("unfrozen", "wrapped-again")) training.renew_wrapper();
          },
      .loss =
          [&](const MicroBatch& batch) {
            const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
            return squared_error(rank, batch, forward, {kRows}, kWidth, kWidth);
          },
      .reduce =
          [&](std::int64_t step) {
            if (step < kUnfreezingStep || !rank.has("unfrozen", "averaged")) return;
            average_each(rank.group(), model.backbone->parameters());
          },
  });
}

Expectation expect_backbones_apart(const Cell& cell) {
  if (cell.steps < kUnfreezingStep) return expect_hidden();
  return expect_apart(cell, {"backbone.*"}, true, kUnfreezingStep);
}

/// The reducer waits for the backbone's gradients, which share the head's bucket.
Expectation expect_reducer_waits(const Cell& cell) {
  const std::vector<std::string> tensors{"head.*"};
  if (cell.steps == 1) return expect_apart(cell, tensors);
  return expect_error_after_wrong_step(cell, ddp_error::kPriorUnfinished, tensors);
}

std::string refuse_few_steps_of_adamw(const Cell& cell) {
  if (cell.steps > kUnfreezingStep || !is_set(cell, "optimizer", "adamw")) return "";
  return "AdamW's first step of a layer uses only the signs of its gradients, so a difference may "
         "not reach the weights: give 3 steps or more";
}

}  // namespace

Scenario unfrozen_after_wrap() {
  return {
      .summary =
          "A backbone is unfrozen after the model was wrapped in DDP, which has not registered it: "
          "each rank trains its own.",
      .origin =
          {"PyTorch Lightning", "Lightning-AI/pytorch-lightning#20340 (2024-10)",
           "a frozen backbone below a trained head, unfrozen by a callback during training",
           "batch norm, and the workaround by learning rates of 0. Freezing below the wrapper "
           "is huggingface/transformers#416, another wrapper facebookresearch/"
           "ClassyVision#398"},
      .variants =
          {buggy("unfrozen-after-wrap",
                 "the backbone is unfrozen in step 2, and the wrapper has never heard of it",
                 "frozen=before-wrap unfrozen=left", expect_backbones_apart),
           wrong_fix("finds-unused-parameters",
                     "find_unused_parameters: DDP searches only those that it has registered",
                     "frozen=before-wrap unfrozen=left find_unused=on", expect_backbones_apart),
           wrong_fix("frozen-after-wrap",
                     "the backbone is registered and then frozen: the reducer waits for it",
                     "frozen=after-wrap unfrozen=left", expect_reducer_waits),
           fixed("frozen-after-wrap-finds-unused",
                 "registered, then frozen, with find_unused_parameters: DDP does not wait for it",
                 "frozen=after-wrap unfrozen=left find_unused=on"),
           fixed("wrapped-again", "a new wrapper is made after the backbone is unfrozen",
                 "frozen=before-wrap unfrozen=wrapped-again"),
           fixed("averaged-by-hand",
                 "from step 2 on, an averaging all-reduce for each gradient of the backbone",
                 "frozen=before-wrap unfrozen=averaged"),
           reference("reference", "one process: the mean of all shards' gradients")},
      .steps = 5,
      .axes = {optimizer_axis()},
      .claims = replica_claims(),
      .precondition = refuse_few_steps_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
