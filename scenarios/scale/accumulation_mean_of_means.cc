// A trainer accumulates gradients over micro-batches and divides each one's loss by its own tokens,
// then by the number of micro-batches. Micro-batches with few tokens then count as much as the
// others: the result depends on how the batch was cut. The repair divides sums by the tokens of
// the whole step, and must then leave out the other division.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFeatures = 4;
constexpr std::int64_t kOutputs = 3;

/// Tokens of a micro-batch: 1, 3, 5, ..., on the next rank one more each.
std::int64_t tokens_of(int owner, std::int64_t index) { return 1 + 2 * index + owner; }

std::int64_t tokens_of_rank(int owner, std::int64_t micro_batches) {
  std::int64_t tokens = 0;
  for (std::int64_t index = 0; index < micro_batches; ++index) tokens += tokens_of(owner, index);
  return tokens;
}

std::int64_t tokens_of_step(int world_size, std::int64_t micro_batches) {
  std::int64_t tokens = 0;
  for (int owner = 0; owner < world_size; ++owner) tokens += tokens_of_rank(owner, micro_batches);
  return tokens;
}

at::Tensor summed_error(Rank& rank, const MicroBatch& batch, const Module::Forward& forward) {
  const std::int64_t rows = tokens_of(batch.owner, batch.index);
  const at::Tensor target = normal_input(rank, batch, 2'000'000, {rows, kOutputs});
  const at::Tensor input = normal_input(rank, batch, 1'000'000, {rows, kFeatures});
  return (forward(input) - target).pow(2).sum();
}

/// The tokens of the step on all ranks, from each rank's own count.
double counted_tokens(Rank& rank, std::int64_t micro_batches) {
  at::Tensor tokens = at::full({}, tokens_of_rank(rank.rank(), micro_batches),
                               at::TensorOptions(rank.group().device()).dtype(at::kFloat));
  rank.group().all_reduce(tokens, ReduceOp::sum);
  return tokens.item<double>();
}

/// What a micro-batch's sum is divided by, besides the number of micro-batches, by which the loop
/// divides, and of ranks, by which DDP does.
double divisor_of(Rank& rank, const MicroBatch& batch, double tokens) {
  const auto micro_batches = static_cast<double>(rank.number("accumulation"));
  rank.at_branch();
  if (rank.has("count", "micro-batch")) {
    return static_cast<double>(tokens_of(batch.owner, batch.index));
  }
  if (rank.has("count", "rank")) {
    return static_cast<double>(tokens_of_rank(rank.rank(), rank.number("accumulation"))) /
           micro_batches;
  }
  const double per_rank = tokens / rank.world_size();
  return rank.has("loop", "divides-as-well") ? per_rank : per_rank / micro_batches;
}

/// One process: the mean over all tokens, whatever the cut.
void mean_over_step(Rank& rank, Module& model, std::int64_t step, std::int64_t micro_batches) {
  at::Tensor sum = at::zeros({}, rank.device());
  for (MicroBatch batch{0, step}; batch.owner < rank.world_size(); ++batch.owner) {
    for (batch.index = 0; batch.index < micro_batches; ++batch.index) {
      sum = sum + summed_error(rank, batch, [&](const at::Tensor& input) { return model(input); });
    }
  }
  (sum / tokens_of_step(rank.world_size(), micro_batches)).backward();
}

void train(Rank& rank) {
  TwoLayers model(kFeatures, 5, kOutputs, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  const std::int64_t micro_batches = training.options().accumulation;
  double tokens = 0;
  StepHooks hooks;
  hooks.before = [&](std::int64_t) {
    if (rank.has("count", "step")) tokens = counted_tokens(rank, micro_batches);
  };
  hooks.loss = [&](const MicroBatch& batch) {
    const at::Tensor sum =
        summed_error(rank, batch, [&](const at::Tensor& input) { return training.forward(input); });
    return sum / divisor_of(rank, batch, tokens);
  };
  hooks.reference = [&](std::int64_t step) { mean_over_step(rank, model, step, micro_batches); };
  training.run(hooks);
}

Expectation expect_weighted_by_cut(const Cell& cell, const char* why) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = why;
  return expectation;
}

Expectation expect_micro_batches_alike(const Cell& cell) {
  return expect_weighted_by_cut(cell, "how far a micro-batch's mean is from that of all is random");
}

Expectation expect_ranks_alike(const Cell& cell) {
  return expect_weighted_by_cut(cell, "how far a rank's mean is from that of all is random");
}

/// All gradients are as many times too small as there are micro-batches.
Expectation expect_divided_again(const Cell& cell) {
  const std::int64_t micro_batches = number_on(cell, "accumulation");
  if (micro_batches == 1) return expect_hidden();
  if (is_set(cell, "optimizer", "sgd")) {
    return expect_multiple(cell, 1 / static_cast<double>(micro_batches));
  }
  return expect_not_applicable(
      "AdamW divides by the size of the gradients, so it is left to its epsilon whether a factor "
      "reaches the weights");
}

}  // namespace

Scenario accumulation_mean_of_means() {
  return {
      .summary =
          "Each micro-batch is divided by its own tokens, and their means are averaged: a token "
          "counts more in a short micro-batch.",
      .origin =
          {"transformers, unsloth, verl",
           "huggingface/transformers#34191 (2024-10), #35438, unslothai/unsloth#1134; "
           "verl-project/verl#5625 (2026-03-16); divided twice: unslothai/unsloth-zoo#1023",
           "micro-batches of unequal length under no_sync; the repair by the tokens of the whole "
           "step, without and with the count of other ranks; the division that stayed",
           "language models: here two layers, each token's squared error"},
      .variants = {buggy("own-counts", "each micro-batch is the mean over its own tokens",
                         "count=micro-batch", expect_micro_batches_alike),
                   wrong_fix(
                       "counts-of-the-rank",
                       "the tokens of all the rank's micro-batches, but not those of other ranks",
                       "count=rank", expect_ranks_alike),
                   wrong_fix("divided-by-micro-batches-as-well",
                             "the tokens of the step, and the number of micro-batches once more",
                             "count=step loop=divides-as-well", expect_divided_again),
                   fixed("counts-of-the-step",
                         "sums are divided by the tokens of the step on all ranks", "count=step"),
                   reference("reference", "one process: the mean over all tokens of the step")},
      .axes = {{"accumulation", {"1", "2", "4"}, "2"},
               switch_axis("no_sync", false),
               optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
