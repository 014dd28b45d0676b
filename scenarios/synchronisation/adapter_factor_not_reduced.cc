// Adapters of layers that are split over a tensor-parallel group: one factor is split like its
// layer, the other is whole on every rank. Under sequence parallelism the whole one sees only the
// rank's tokens. Layer norms are known for this and marked, adapters come from another library. The
// base is frozen, so no other tensor shows the fault, and a checkpoint keeps rank 0's factor.

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "harness/train/autograd/collectives.h"
#include "harness/train/loop/marked_parameters.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/lora.h"
#include "harness/train/sharded/tensor_parallel.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kTokens = 2;  // of each rank
constexpr std::int64_t kHidden = 3;  // on each rank
constexpr LoraOptions kAdapters{.rank = 2, .alpha = 4, .draws_b = true};
constexpr double kScale = 2;  // alpha / rank

/// An adapted layer's three parts.
struct Parts {
  explicit Parts(const Module& layer)
      : base(*layer.children().at(0).module),
        a(*layer.children().at(1).module),
        b(*layer.children().at(2).module) {}
  Module &base, &a, &b;
};

struct AdaptedMlp : Module {
  AdaptedMlp(std::int64_t hidden, const at::Generator& generator) {
    const auto adapted = [&](std::int64_t in, std::int64_t out) {
      const auto base = std::make_shared<Linear>(in, out, generator, /*has_bias=*/false);
      return std::make_shared<LoraLinear>(base, kAdapters, generator);
    };
    up = register_module("up", adapted(kWidth, hidden));
    down = register_module("down", adapted(hidden, kWidth));
  }

  at::Tensor forward(const at::Tensor& input) override { return (*down)((*up)(input).tanh()); }

  /// The same with a part of each layer on each rank, for the rank's tokens. What crosses ranks
  /// between the factors is small: `up` gathers behind its first factor, `down` scatters there.
  at::Tensor of_own_tokens(ProcessGroup& group, const at::Tensor& input) const {
    const Parts column(*up), row(*down);
    const at::Tensor low = gathered_over_ranks(group, column.a(input));
    const at::Tensor hidden =
        (column.base(gathered_over_ranks(group, input)) + column.b(low) * kScale).tanh();
    return scattered_sum_of_ranks(group, row.base(hidden)) +
           row.b(scattered_sum_of_ranks(group, row.a(hidden))) * kScale;
  }

  std::shared_ptr<LoraLinear> up, down;
};

/// Of the tokens of all ranks: what a rank's own add to the loss.
at::Tensor loss_of_rank(Rank& rank, std::int64_t step, AdaptedMlp& model) {
  const MicroBatch of_all{/*owner=*/0, step};
  const std::int64_t tokens = kTokens * rank.world_size();
  const at::Tensor input = normal_input(rank, of_all, 1'000'000, {tokens, kWidth});
  const at::Tensor target = normal_input(rank, of_all, 2'000'000, {tokens, kWidth});
  const std::int64_t first = rank.is_reference() ? 0 : rank.rank() * kTokens;
  const std::int64_t count = rank.is_reference() ? tokens : kTokens;
  const at::Tensor own_input = input.narrow(0, first, count);
  const at::Tensor output =
      rank.is_reference() ? model(own_input) : model.of_own_tokens(rank.group(), own_input);
  at::Tensor errors = (output - target.narrow(0, first, count)).pow(2).sum(1);
  // The other tokens are a prompt.
  const std::int64_t prompt = rank.has("loss", "last-tokens") ? tokens - kTokens : 0;
  const std::int64_t skipped = std::clamp<std::int64_t>(prompt - first, 0, count);
  errors = errors.narrow(0, skipped, count - skipped);
  return errors.sum() / (tokens - prompt) + output.sum() * 0;
}

std::vector<at::Tensor> marked_factors(const Rank& rank, const AdaptedMlp& model,
                                       const TensorParallel& sharded) {
  if (rank.has("marked", "whole-factors")) return sharded.whole_parameters();
  if (rank.has("marked", "first-factors")) return Parts(*model.up).a.parameters();
  return {};
}

void train(Rank& rank) {
  AdaptedMlp model(kHidden * rank.world_size(), cpu_generator(rank.seed(0)));
  model.to(rank.device());
  if (rank.is_reference()) {
    return Training(rank, model).run({.reference = [&](std::int64_t step) {
      loss_of_rank(rank, step, model).backward();
    }});
  }
  TensorParallel sharded(model,
                         {{"up.base.weight", 0},
                          {"up.lora_b.weight", 0},
                          {"down.base.weight", 1},
                          {"down.lora_a.weight", 1}},
                         rank.group());
  Training training(rank, model, {}, &sharded);
  name_parameters(model);
  rank.at_branch();
  const std::vector<at::Tensor> marked = marked_factors(rank, model, sharded);
  reduce_by_hooks_if_asked(rank, marked);
  training.run(
      {.loss = [&](const MicroBatch& batch) { return loss_of_rank(rank, batch.step, model); },
       .reduce = [&](std::int64_t) { reduce_after_backward_if_asked(rank, marked); }});
}

/// If only the last rank's tokens have a loss, all others have gradients of zeros: their factors
/// keep their first values, and the last rank has the right gradients.
Expectation expect_factors_apart(const Cell& cell, const std::vector<std::string>& factors) {
  Expectation expectation = expect_apart(cell, factors);
  if (!is_set(cell, "loss", "last-tokens")) return expectation;
  std::vector<int> others;
  for (int rank = 0; rank + 1 < cell.world_size; ++rank) others.push_back(rank);
  expectation.pins[0].groups = {others, {cell.world_size - 1}};
  expectation.pins[1].ratio = about(0);
  return expectation;
}

Expectation expect_whole_factors_apart(const Cell& cell) {
  return expect_factors_apart(cell, {"up.lora_a.weight", "down.lora_b.weight"});
}

Expectation expect_second_factor_apart(const Cell& cell) {
  return expect_factors_apart(cell, {"down.lora_b.weight"});
}

Expectation expect_share(const Cell& cell) {
  return expect_multiple_of(cell, {"up.lora_a.weight", "down.lora_b.weight"},
                            1.0 / cell.world_size);
}

}  // namespace

Scenario adapter_factor_not_reduced() {
  return {
      .summary =
          "The adapter's factor that is whole on each rank sees only the rank's tokens, and is not "
          "marked for reduction: each rank trains its own.",
      .origin = {"mcore-bridge, NeMo, Megatron-Bridge",
                 "modelscope/mcore-bridge#173 (2026-08-26); NVIDIA-NeMo/Speech#8369, "
                 "NVIDIA-NeMo/Megatron-Bridge#5900 (2026-08-30)",
                 "the first factor below a column-parallel layer, the second one above a "
                 "row-parallel layer; a prompt on rank 0, whose exported factor never moved; the "
                 "sum over the group",
                 "attention, which mixes tokens; factors that start with zeros: here drawn, so "
                 "that step 1 has gradients of both"},
      .variants = {buggy("factors-not-reduced", "neither of the two whole factors is marked",
                         "marked=none", expect_whole_factors_apart),
                   wrong_fix("first-factor-marked",
                             "lora_a is marked, but of row-parallel layers lora_b is the whole one",
                             "marked=first-factors reduced=summed", expect_second_factor_apart),
                   wrong_fix("averaged", "gradients are averaged: 1 / ranks of the right ones",
                             "marked=whole-factors reduced=averaged", expect_share),
                   fixed("summed-after-backward", "both are marked, and summed after backward",
                         "marked=whole-factors reduced=summed"),
                   fixed("summed-by-hooks", "a hook of each sums its gradient",
                         "marked=whole-factors reduced=by-hooks"),
                   reference("reference", "one process: whole layers, all tokens")},
      .axes = {{"loss", {"all-tokens", "last-tokens"}, "all-tokens"}},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
