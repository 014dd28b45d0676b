// Each rank divides its loss by the tokens that it trains on, and DDP averages over ranks. Ranks
// whose texts have few such tokens then count as much as the others: a token's weight depends on
// the rank that it came to. The mean over all tokens needs their number over all ranks, and what
// DDP divides by must be multiplied back.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFeatures = 4;
constexpr std::int64_t kClasses = 5;

/// Tokens that a rank trains on: 1, 3, 5, ... The others of its positions are a prompt.
std::int64_t trained_tokens(int owner) { return 1 + 2 * owner; }

/// Of each rank: the longest answer, and a prompt.
std::int64_t positions(int world_size) { return trained_tokens(world_size - 1) + 3; }

std::int64_t trained_tokens_of_all(int world_size) {
  return static_cast<std::int64_t>(world_size) * world_size;  // 1 + 3 + 5 + ...
}

/// The sum of the trained tokens' cross-entropies.
at::Tensor summed_loss(Rank& rank, const MicroBatch& batch, const Module::Forward& forward) {
  const std::int64_t length = positions(rank.world_size());
  const at::Tensor input = normal_input(rank, batch, 1000, {length, kFeatures});
  const at::Tensor labels =
      at::randint(kClasses, {length, 1}, cpu_generator(rank.seed(batch.seed(500'000))), at::kLong)
          .to(input.device());
  const at::Tensor logits = forward(input).log_softmax(-1);
  const std::int64_t prompt = length - trained_tokens(batch.owner);
  return -logits.gather(-1, labels).narrow(0, prompt, length - prompt).sum();
}

/// What a rank divides its sum by.
double normaliser(Rank& rank, int owner) {
  const int ranks = rank.world_size();
  if (rank.is_reference()) return static_cast<double>(trained_tokens_of_all(ranks)) / ranks;
  rank.at_branch();
  if (rank.has("count", "own")) return static_cast<double>(trained_tokens(owner));
  if (rank.has("count", "positions")) return static_cast<double>(positions(ranks));
  const bool is_mean = rank.has("count", "mean");
  const at::TensorOptions options = at::TensorOptions(rank.group().device()).dtype(at::kFloat);
  at::Tensor tokens = at::full({}, trained_tokens(owner), options);
  rank.group().all_reduce(tokens, is_mean ? ReduceOp::average : ReduceOp::sum);
  return tokens.item<double>();
}

void train(Rank& rank) {
  TwoLayers model(kFeatures, 6, kClasses, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  if (rank.has("reduction", "sum")) training.ddp()->register_comm_hook(sum_bucket);
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor sum =
        summed_loss(rank, batch, [&](const at::Tensor& input) { return training.forward(input); });
    const double tokens = normaliser(rank, batch.owner);
    const bool is_multiplied = rank.has("loss", "times-ranks");
    return is_multiplied ? sum / tokens * rank.world_size() : sum / tokens;
  }});
}

Expectation expect_ranks_alike(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = "how far a rank's mean is from that of all tokens is random";
  return expectation;
}

/// All gradients are `times` the right ones.
Expectation expect_factor(const Cell& cell, double times) {
  if (is_set(cell, "optimizer", "sgd")) return expect_multiple(cell, times);
  return expect_not_applicable(
      "AdamW divides by the size of the gradients, so it is left to its epsilon whether a factor "
      "reaches the weights");
}

/// The sum over all tokens, divided by their number and by the ranks.
Expectation expect_divided_twice(const Cell& cell) {
  return expect_factor(cell, 1.0 / cell.world_size);
}

/// The mean over positions, most of which have no loss.
Expectation expect_diluted(const Cell& cell) {
  const std::int64_t all_positions = positions(cell.world_size) * cell.world_size;
  return expect_factor(cell, static_cast<double>(trained_tokens_of_all(cell.world_size)) /
                                 static_cast<double>(all_positions));
}

}  // namespace

Scenario token_mean_per_rank() {
  return {
      .summary =
          "Each rank divides by its own tokens, and DDP averages the means: a token counts more on "
          "a rank that has few.",
      .origin =
          {"transformers, speculators, prime-rl",
           "huggingface/transformers#34242 (2024-10-18), vllm-project/speculators#942 "
           "(2026-08-06), PrimeIntellect-ai/prime-rl#2359 and #2562 (2026-05-19); the factor that "
           "is forgotten: verl-project/verl-SpeCo#29",
           "masked cross-entropy with 1, 3, 5, ... trained tokens on the ranks; the repairs by a "
           "count over all ranks",
           "language models: here two layers and random classes; accumulation, context parallel "
           "ranks"},
      .variants =
          {buggy("own-count", "the loss is the mean over the rank's own tokens", "count=own",
                 expect_ranks_alike),
           wrong_fix("count-of-all",
                     "the count is all-reduced, but DDP divides by the ranks as well", "count=all",
                     expect_divided_twice),
           wrong_fix(
               "positions-counted",
               "all ranks divide by their positions, which are equally many: masked ones, too",
               "count=positions", expect_diluted),
           fixed("count-of-all-times-ranks",
                 "the count is all-reduced, and the loss multiplied by the ranks",
                 "count=all loss=times-ranks"),
           fixed("mean-count", "each rank divides by the mean of the ranks' counts", "count=mean"),
           fixed("count-of-all-and-sum",
                 "the count is all-reduced, and a communication hook sums without dividing",
                 "count=all reduction=sum"),
           reference("reference", "one process: the mean over the tokens of all ranks")},
      .axes = {optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
