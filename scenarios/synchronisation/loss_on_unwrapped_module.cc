// The trainer wraps its model in DistributedDataParallel but computes the loss on the module
// inside. The reducer is never armed: every rank trains its own replica, and the checkpoint keeps
// rank 0's.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/published_shard.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

/// Calls the wrapper only if the variant does.
at::Tensor forward(Rank& rank, Training& training, Module& model, const at::Tensor& input,
                   std::int64_t step) {
  if (!rank.has("loss", "on-module")) return training.forward(input);
  if (rank.has("armed", "without-grad")) {
    const at::NoGradGuard no_grad;
    training.forward(input);
  }
  if (rank.has("armed", "always") ||
      (rank.has("armed", "every-kth") && step % rank.number("k") == 0)) {
    training.forward(input);
  }
  return model.forward(input);
}

/// Reduces the gradients that DDP did not reduce, as the trainer does.
void reduce_by_hand(Rank& rank, const std::vector<at::Tensor>& parameters) {
  ProcessGroup& group = rank.group();
  if (rank.has("reduced", "each")) average_each(group, parameters);
  if (rank.has("reduced", "flat")) average_flat(group, parameters);
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (rank.has("reduced", "summed")) group.all_reduce(gradient, ReduceOp::sum);
    if (rank.has("reduced", "divided-again")) {
      group.all_reduce(gradient, ReduceOp::average);
      gradient /= rank.world_size();
    }
    const bool is_matrix = parameter.dim() == 2;
    if (rank.has("reduced", "matrices") && is_matrix) group.all_reduce(gradient, ReduceOp::average);
  }
}

void train(Rank& rank) {
  Linear model(4, 4, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            const auto [input, target] = published_shard(rank, batch);
            return mean_squared_error(forward(rank, training, model, input, batch.step), target);
          },
      .reduce =
          [&](std::int64_t) {
            rank.at_branch();
            reduce_by_hand(rank, model.parameters());
          },
      .update =
          [&](std::int64_t) {
            training.optimizer().step();
            if (rank.has("reduced", "after-step")) average_each(rank.group(), model.parameters());
          },
  });
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

/// Compares the published run with its published tables.
Expectation with_tables(const Cell& cell, Expectation expectation) {
  const bool is_published =
      cell.world_size == 2 && cell.steps >= 5 && cell.seed == 0 && is_set(cell, "optimizer", "sgd");
  if (is_published) expectation.meets = {"opentslm-49-gradients", "opentslm-49-drift"};
  return expectation;
}

Expectation expect_published_bug(const Cell& cell) {
  return with_tables(cell, expect_never_reduced(cell));
}

Expectation expect_published_fix(const Cell& cell) { return with_tables(cell, {}); }

/// Every k-th step averages the gradients of replicas that already differ.
Expectation expect_reduced_every_kth_step(const Cell& cell) {
  Expectation expectation = expect_never_reduced(cell);
  if (cell.steps % number_on(cell, "k") == 0) expectation.pins.front().last_step = cell.steps - 1;
  return expectation;
}

/// Each rank keeps its own bias, so the replicas differ.
Expectation expect_bias_never_reduced(const Cell& cell) {
  Expectation expectation = expect_never_reduced(cell);
  for (Pin& pin : expectation.pins) pin.tensors = {"bias"};
  return expectation;
}

/// AdamW divides by the size of the gradients, so a factor in them does not reach the weights.
Expectation expect_summed(const Cell& cell) {
  return expect_multiple(cell, cell.world_size, is_set(cell, "optimizer", "sgd"));
}

Expectation expect_divided_again(const Cell& cell) {
  return expect_multiple(cell, 1.0 / cell.world_size, is_set(cell, "optimizer", "sgd"));
}

std::vector<Variant> variants() {
  const auto never_reduced = [](const Cell& cell) { return expect_never_reduced(cell); };
  return {
      buggy("bypass", "the trainer computes the loss on ddp.module", "loss=on-module reduced=never",
            expect_published_bug),
      buggy("bypass-after-no-grad-forward",
            "after a forward of the wrapper without grad, which does not arm the hooks",
            "loss=on-module armed=without-grad", never_reduced),
      buggy("bypass-armed-every-kth-step",
            "a forward of the wrapper arms the hooks in every k-th step; only those synchronise",
            "loss=on-module armed=every-kth", expect_reduced_every_kth_step),
      latent("bypass-after-armed-forward",
             "a forward of the wrapper arms the hooks in every step, so gradients synchronise",
             "loss=on-module armed=always"),
      fixed("all-reduce-each",
            "the pull request: after backward, one averaging all-reduce per gradient",
            "loss=on-module reduced=each", expect_published_fix),
      fixed("all-reduce-flat", "one averaging all-reduce of all gradients in one buffer",
            "loss=on-module reduced=flat"),
      fixed("through-wrapper", "the loss on the wrapper: the reducer averages the gradients",
            "loss=on-wrapper"),
      wrong_fix("sum-not-averaged", "all-reduce with SUM, without the division",
                "loss=on-module reduced=summed", expect_summed),
      wrong_fix("divided-twice", "all-reduce with AVG, then divided by the number of ranks again",
                "loss=on-module reduced=divided-again", expect_divided_again),
      wrong_fix("reduced-after-step", "the all-reduce comes after the optimizer's step",
                "loss=on-module reduced=after-step", never_reduced),
      wrong_fix("only-matrices-reduced", "the reduction leaves out vectors, such as biases",
                "loss=on-module reduced=matrices", expect_bias_never_reduced),
      reference("reference", "one process: the mean of all shards' gradients"),
  };
}

std::vector<TableSpec> tables() {
  const std::vector<TableSpec::Group> groups{{"BUGGY", "bypass"}, {"FIXED", "all-reduce-each"}};
  return {
      {.title = "Gradient on weight[0] after backward, per rank",
       .quantity = Quantity::element,
       .kind = Kind::gradient,
       .phase = Phase::pre_step,
       .tensor = "weight",
       .element = 0,
       .symbol = "g",
       .digits = 5,
       .groups = groups},
      {.title = "Cross-rank weight drift max|W_i - W_j| after each step",
       .quantity = Quantity::drift,
       .kind = Kind::parameter,
       .phase = Phase::post_step,
       .tensor = "weight",
       .symbol = "W",
       .digits = 6,
       .groups = groups},
  };
}

}  // namespace

Scenario loss_on_unwrapped_module() {
  return {
      .summary =
          "The loss is computed on the module inside the DDP wrapper: gradients are never "
          "synchronised, and the replicas drift apart.",
      .origin =
          {"SchmiedmayerLab", "pull request #49 (2026-06-27)",
           "the toy script: model, seeds, data, learning rate, tables; the review's flat buffer",
           "NCCL and GPUs unless they are asked for: elsewhere CUDA's random numbers are imitated"},
      .variants = variants(),
      .steps = 5,
      .axes = {optimizer_axis(), {"k", {"2", "3"}, "2", {"bypass-armed-every-kth-step"}}},
      .claims = replica_claims(),
      .tables = tables(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
