// Some parameters are sharded, and others are whole on every rank. A trainer sums the squares of
// the gradients over the ranks to clip by their norm, and so counts a whole parameter as often as
// there are ranks: the norm is too large, and everything is clipped too much. Leaving them out
// clips too little.

#include <ATen/TensorOperators.h>
#include <ATen/ops/hypot.h>

#include <cmath>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/optim/clip_grad_norm.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 16;  // rows for every rank
constexpr std::int64_t kRows = 4;
constexpr double kMaxNorm = 0.01;  // below the norm of any layer, so that clipping acts

struct PartlySharded : Module {
  explicit PartlySharded(const at::Generator& generator)
      : sharded(register_module("sharded", std::make_shared<Linear>(kWidth, kWidth, generator))),
        whole(register_module("whole", std::make_shared<Linear>(kWidth, kWidth, generator))) {}

  at::Tensor forward(const at::Tensor& input) override {
    return (*whole)((*sharded)(input).tanh());
  }

  std::shared_ptr<Linear> sharded, whole;
};

/// What a rank adds for whole parameters with the norm `whole`, before it sums over the ranks.
at::Tensor counted_norm(const Rank& rank, const at::Tensor& whole) {
  if (rank.has("whole", "left-out")) return whole * 0;
  if (rank.has("whole", "shared-out")) return whole / std::sqrt(rank.world_size());
  return whole;
}

at::Tensor norm_of_all(Rank& rank, const at::Tensor& shards, const at::Tensor& whole) {
  if (rank.has("whole", "added-once")) {
    return at::hypot(norm_over_ranks(rank.group(), shards), whole);
  }
  return norm_over_ranks(rank.group(), at::hypot(shards, counted_norm(rank, whole)));
}

void train(Rank& rank) {
  PartlySharded model(cpu_generator(rank.seed(0)));
  model.to(rank.device());
  const auto loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, model, {kRows}, kWidth, kWidth);
  };
  if (rank.is_reference()) {
    return Training(rank, model, training_options(rank))
        .run({.loss = loss, .reference = [&](std::int64_t step) {
                rank.mean_of_rank_gradients(model, [&](int owner) { return loss({owner, step}); });
                clip_grad_norm(model.parameters(), kMaxNorm);
              }});
  }
  const std::vector<at::Tensor> whole = model.whole->parameters();
  FullyShard sharded(model, {model.sharded.get()}, rank.group(), {.ignored_params = whole});
  Training training(rank, model, training_options(rank), &sharded);
  name_parameters(model);
  training.run({.loss = loss, .reduce = [&](std::int64_t) {
                  average_each(rank.group(), whole);
                  rank.at_branch();
                  const std::vector<at::Tensor> all = sharded.parameters();
                  std::vector<at::Tensor> shards = all;
                  shards.resize(all.size() - whole.size());  // whole parameters come last
                  clip_grads_with_norm(
                      all, kMaxNorm,
                      norm_of_all(rank, total_grad_norm(shards), total_grad_norm(whole)));
                }});
}

/// All gradients are `ratio` times the right ones.
Expectation expect_other_norm(const Cell& cell, const Range& ratio) {
  return pinned(expect_wrong_shards(), {{.claim = kGradientsEqual,
                                         .steps = {1},
                                         .last_step = cell.steps,
                                         .ratio = ratio,
                                         .cosine = kSameDirection}});
}

/// A norm in which all would be counted once per rank is sqrt(ranks) times the right one.
Expectation expect_norm_too_large(const Cell& cell) {
  return expect_other_norm(cell, {1 / std::sqrt(cell.world_size), 0.999});
}

Expectation expect_norm_too_small(const Cell& cell) {
  return expect_other_norm(cell, {1.001, 1000});
}

}  // namespace

Scenario replicated_parameters_counted_per_rank_in_norm() {
  return {
      .summary =
          "The squares of all gradients are summed over the ranks, and those of parameters that "
          "are whole on every rank count once per rank: all are clipped too much.",
      .origin =
          {"NeMo-RL, hyper-parallel, TransformerEngine, Megatron-LM",
           "NVIDIA-NeMo/RL#3788 (2026-08-26), mindspore-ai/hyper-parallel#526 (2026-09-12), "
           "ROCm/TransformerEngine#715 (2026-08-25); left out: NVIDIA/Megatron-LM#5916; "
           "NVIDIA/Megatron-LM#7228",
           "parameters that FSDP2 ignores, averaged by the trainer; the repairs by placement; the "
           "squares that are divided by their copies",
           "tensor parallel layers, whose norms are such parameters there"},
      .variants =
          {buggy("counted-per-rank", "the squares of all parameters are summed over the ranks",
                 "whole=as-shards", expect_norm_too_large),
           wrong_fix("left-out", "whole parameters are left out of the norm: it is too small",
                     "whole=left-out", expect_norm_too_small),
           fixed("added-once", "their squares are added after the sum over the ranks",
                 "whole=added-once"),
           fixed("shared-out", "their squares are divided by the ranks before they are summed",
                 "whole=shared-out"),
           reference("reference", "one process: the mean gradients, clipped by their norm")},
      .claims = claims_before({kGradientsAgree, kParametersAgree}, sharded_claims()),
      .body = train,
  };
}

}  // namespace lockstep
