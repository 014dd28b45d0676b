// Sequence parallelism splits the tokens over the ranks of a tensor-parallel group, between the
// layers that they share. A layer norm there is whole on every rank, but sees only the rank's
// tokens, so its gradients must be summed over the ranks. Where that is forgotten, each rank trains
// a norm of its own below shared layers, and a checkpoint keeps rank 0's.

#include <ATen/TensorOperators.h>

#include "harness/train/autograd/collectives.h"
#include "harness/train/loop/marked_parameters.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/sharded/tensor_parallel.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kTokens = 2;  // of each rank
constexpr std::int64_t kHidden = 3;  // on each rank

/// A residual MLP between two norms.
struct Block : Module {
  Block(std::int64_t hidden, const at::Generator& generator)
      : norm(register_module("norm", std::make_shared<LayerNorm>(kWidth))),
        up(register_module("up", std::make_shared<Linear>(kWidth, hidden, generator))),
        down(register_module("down", std::make_shared<Linear>(hidden, kWidth, generator, false))),
        final_norm(register_module("final_norm", std::make_shared<LayerNorm>(kWidth))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return (*final_norm)(input + (*down)((*up)((*norm)(input)).tanh()));
  }

  /// The same with a part of `up` and `down` on each rank, for the rank's tokens.
  at::Tensor of_own_tokens(ProcessGroup& group, const at::Tensor& input) {
    const at::Tensor tokens = gathered_over_ranks(group, (*norm)(input));
    const at::Tensor partial = (*down)((*up)(tokens).tanh());
    return (*final_norm)(input + scattered_sum_of_ranks(group, partial));
  }

  /// The same for all tokens, which every rank has: tensor parallelism alone.
  at::Tensor of_all_tokens(ProcessGroup& group, const at::Tensor& input) {
    const at::Tensor tokens = copied_to_ranks(group, (*norm)(input));
    const at::Tensor partial = (*down)((*up)(tokens).tanh());
    return (*final_norm)(input + sum_on_all_ranks(group, partial));
  }

  std::shared_ptr<LayerNorm> norm;
  std::shared_ptr<Linear> up, down;
  std::shared_ptr<LayerNorm> final_norm;
};

/// Of the tokens of all ranks: what a rank's own add to the loss.
at::Tensor loss_of_rank(Rank& rank, const MicroBatch& batch, Block& model) {
  const std::int64_t tokens = kTokens * rank.world_size();
  const at::Tensor input = normal_input(rank, batch, 1'000'000, {tokens, kWidth});
  const at::Tensor target = normal_input(rank, batch, 2'000'000, {tokens, kWidth});
  const auto mean_of = [&](const at::Tensor& error) {
    return error.pow(2).sum() / (tokens * kWidth);
  };
  if (rank.is_reference()) return mean_of(model(input) - target);
  if (rank.has("tokens", "all")) return mean_of(model.of_all_tokens(rank.group(), input) - target);
  const auto own = [&](const at::Tensor& whole) {
    return whole.narrow(0, rank.rank() * kTokens, kTokens);
  };
  return mean_of(model.of_own_tokens(rank.group(), own(input)) - own(target));
}

std::vector<at::Tensor> marked_parameters(const Rank& rank, const Block& model,
                                          const TensorParallel& sharded) {
  if (rank.has("marked", "all-parameters")) return sharded.parameters();
  if (rank.has("marked", "inner-norm")) return model.norm->parameters();
  return rank.has("marked", "norms") ? sharded.whole_parameters() : std::vector<at::Tensor>();
}

void train(Rank& rank) {
  Block model(kHidden * rank.world_size(), cpu_generator(rank.seed(0)));
  model.to(rank.device());
  const auto loss = [&](std::int64_t step) {
    return loss_of_rank(rank, {/*owner=*/0, step}, model);  // one batch for all ranks
  };
  if (rank.is_reference()) {
    return Training(rank, model).run({.reference = [&](std::int64_t step) {
      loss(step).backward();
    }});
  }
  TensorParallel sharded(model, {{"up.weight", 0}, {"up.bias", 0}, {"down.weight", 1}},
                         rank.group());
  Training training(rank, model, {}, &sharded);
  name_parameters(model);
  rank.at_branch();
  const std::vector<at::Tensor> marked = marked_parameters(rank, model, sharded);
  reduce_by_hooks_if_asked(rank, marked);
  training.run({.loss = [&](const MicroBatch& batch) { return loss(batch.step); },
                .reduce = [&](std::int64_t) { reduce_after_backward_if_asked(rank, marked); }});
}

Expectation expect_norms_apart(const Cell& cell) {
  return expect_apart(cell, {"norm.*", "final_norm.*"});
}

Expectation expect_final_norm_apart(const Cell& cell) {
  return expect_apart(cell, {"final_norm.*"});
}

Expectation expect_share(const Cell& cell) {
  return expect_multiple_of(cell, {"norm.*", "final_norm.*"}, 1.0 / cell.world_size);
}

/// The norms are right. Parts of other rows have the same shape, so their sum is no error.
Expectation expect_parts_summed(const Cell& cell) {
  return pinned(expect_wrong_shards(), {wrong_gradients_of(cell, {"up.*", "down.*"},
                                                           "the other ranks' parts are random")});
}

}  // namespace

Scenario sequence_parallel_norm_gradients_not_reduced() {
  return {
      .summary =
          "Layer norms see only a rank's tokens, and their gradients are not summed over the ranks "
          "that share the sequence: each rank trains its own.",
      .origin =
          {"Megatron-LM, gpt-neox",
           "NVIDIA/Megatron-LM#1446 (2025-03-04), #443, #474; EleutherAI/gpt-neox#1257, #1259 "
           "(2024-08-13)",
           "layers split over ranks with gathers and reduce-scatters between them, as in "
           "Megatron; its final norm, which was forgotten; gpt-neox's hooks, which averaged "
           "before they summed",
           "attention; data-parallel replicas; the hooks that gpt-neox lost when DeepSpeed "
           "replaced its parameters"},
      .variants =
          {buggy("norms-not-reduced", "nothing is reduced: each norm learns from the rank's tokens",
                 "tokens=own marked=none", expect_norms_apart),
           buggy("final-norm-not-reduced", "the final norm is not marked as the inner one is",
                 "tokens=own marked=inner-norm reduced=summed", expect_final_norm_apart),
           wrong_fix("averaged", "the norms' gradients are averaged: 1 / ranks of the right ones",
                     "tokens=own marked=norms reduced=averaged", expect_share),
           wrong_fix("all-summed", "gradients of parts are summed, too, which are of other rows",
                     "tokens=own marked=all-parameters reduced=summed", expect_parts_summed),
           fixed("summed-after-backward", "gradients of all norms are summed after backward",
                 "tokens=own marked=norms reduced=summed"),
           fixed("summed-by-hooks", "a hook of each norm's parameters sums their gradients",
                 "tokens=own marked=norms reduced=by-hooks"),
           fixed("whole-sequence", "without sequence parallelism: norms see all tokens",
                 "tokens=all marked=none"),
           reference("reference", "one process: whole layers, all tokens")},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
