// A fused loss computes its gradients in forward, for a loss that is not multiplied. Trainers do
// multiply it: by 1 / the number of micro-batches, or by the number of processes, which DDP divides
// by again. Its backward ignored that. The first fix multiplied in place, so that a second backward
// through the same graph found gradients that were multiplied before.

#include <ATen/TensorOperators.h>

#include "harness/train/autograd/fused_cross_entropy.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/vision_language_model.h"

namespace lockstep {

namespace {

constexpr std::int64_t kText = 7;
constexpr const char* kModifiedInPlace =
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation";

/// The factor of a micro-batch's loss in the trainer, in addition to 1 / accumulation.
double factor_of(const Cell& cell) {
  const std::string& times = axis_value(cell, "times");
  return times == "world-size" ? cell.world_size : std::stod(times);
}

FusedCrossEntropyOptions fused_of(const Rank& rank) {
  FusedCrossEntropyOptions fused{.chunks = rank.number("chunks"),
                                 .saves_for_backward = rank.has("kept", "saved-tensors")};
  if (rank.has("grad_output", "ignored")) fused.grad_output = GradOutput::ignored;
  if (rank.has("grad_output", "in-place")) fused.grad_output = GradOutput::in_place;
  return fused;
}

void train(Rank& rank) {
  VisionLanguageModel model(kTinyUntied, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  const double factor = factor_of(rank.cell());
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  Training training(rank, model, options);

  const auto fused_loss = [&](const at::Tensor& image, const at::Tensor& tokens) {
    rank.at_branch();
    const at::Tensor hidden = training.forward([&] { return model.hidden_states(image, tokens); });
    const at::Tensor loss =
        fused_cross_entropy(hidden, model.head_weight(), {}, tokens, fused_of(rank)) * factor;
    if (rank.has("backwards", "two")) {
      // For a log of the gradient at the hidden states, say; `.grad` of no parameter sees it.
      (loss / options.accumulation)
          .backward({}, /*retain_graph=*/true, /*create_graph=*/false, std::vector{hidden});
    }
    return loss;
  };
  training.run({.loss = [&](const MicroBatch& batch) {
    const auto [image, tokens] =
        image_text_of(rank, batch, kTinyUntied, rank.number("batch"), kText);
    if (!rank.is_reference()) return fused_loss(image, tokens);
    return next_token_loss(model.forward(image, tokens), tokens) * factor;
  }});
}

/// All gradients are `times` the right ones, except for the part that was there before backward.
Expectation expect_times(const Cell& cell, double times) {
  if (times == 1) return expect_hidden();
  if (!is_set(cell, "prior")) return expect_multiple(cell, times);
  return pinned(expect_agree_but_wrong(),
                {{.claim = kGradientsEqual,
                  .steps = {1},
                  .last_step = cell.steps,
                  .groups = each_alone(cell),
                  .why = "a gradient from before, which nobody multiplies, is in it"}});
}

double multiplier_of(const Cell& cell) {
  return factor_of(cell) / static_cast<double>(number_on(cell, "accumulation"));
}

Expectation expect_never_multiplied(const Cell& cell) {
  return expect_times(cell, 1 / multiplier_of(cell));
}

/// The second backward multiplies again.
Expectation expect_multiplied_twice(const Cell& cell) {
  if (is_set(cell, "backwards", "one")) return expect_hidden();
  if (is_set(cell, "kept", "saved-tensors")) return expect_error(kModifiedInPlace);
  return expect_times(cell, multiplier_of(cell));
}

}  // namespace

Scenario function_ignores_grad_output() {
  return {
      .summary =
          "A fused loss computes its gradients in forward, and its backward ignores the loss's "
          "scale: all ranks agree on gradients of the wrong size.",
      .origin = {"unsloth-zoo", "pull requests #434 (2026-01-04) and #610 (2026-04-24)",
                 "the chunked cross-entropy, its backward before and after each fix; scaled losses",
                 "mixed precision's scale, which the function took as an argument; torch.func and "
                 "torch.compile: torch::autograd::grad takes their place"},
      .variants =
          {buggy(
               "ignored",
               "backward ignores the factor of the loss and returns forward's gradients unchanged",
               "grad_output=ignored", expect_never_multiplied),
           latent("never-multiplied", "the same backward, with a loss that is never scaled",
                  "grad_output=ignored accumulation=1 times=1")
               .compared_with("reference-of-one-micro-batch"),
           wrong_fix(
               "multiplied-in-place",
               "the first fix scales the saved gradients in place: a second backward rescales them",
               "grad_output=in-place", expect_multiplied_twice),
           fixed("multiplied-out-of-place", "the second fix: the product is a new tensor",
                 "grad_output=out-of-place"),
           reference("reference", "one process and torch's cross-entropy of all logits"),
           reference("reference-of-one-micro-batch",
                     "one process, torch's cross-entropy, with a loss that is never scaled",
                     "accumulation=1 times=1")},
      .worlds = worlds_from(1),
      .axes = {{"accumulation", {"1", "2", "4"}, "2"},
               {"times", {"1", "world-size", "0.5"}, "1"},
               rank_axis("backwards", {"one", "two"}, "two"),
               rank_axis("kept", {"saved-tensors", "attributes"}, "attributes"),
               rank_axis("chunks", {"1", "3", "4"}, "4"),
               {"batch", {"1", "2"}, "2"},
               switch_axis("prior"),
               dtype_axis({"bfloat16"})},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
