// Gradients are sharded, and a trainer clips what it finds on its rank: the norm of a shard is
// about the whole norm divided by the root of the ranks. So gradients are clipped too little, and
// each rank shrinks its part by a factor of its own, which turns the gradient. An all-reduce of the
// norm that comes after the clipping mends the log alone.

#include <ATen/TensorOperators.h>

#include <cmath>

#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/optim/clip_grad_norm.h"
#include "harness/train/sharded/flat_shard.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 16;  // rows for every rank
constexpr std::int64_t kRows = 4;
constexpr double kMaxNorm = 0.01;  // below the norm of any shard, so that clipping acts

std::unique_ptr<ShardedModel> shard(Rank& rank, Module& model) {
  if (rank.is_reference()) return nullptr;
  if (rank.has("engine", "fsdp1")) {
    return std::make_unique<FlatShard>(model, std::vector<Module*>{}, rank.group());
  }
  return std::make_unique<FullyShard>(model, std::vector<Module*>{}, rank.group());
}

/// What a rank takes for the norm of all gradients.
at::Tensor norm_of_all(Rank& rank, const at::Tensor& own) {
  if (rank.has("norm", "of-all")) return norm_over_ranks(rank.group(), own);
  if (rank.has("norm", "mean")) {
    at::Tensor mean = own.clone();
    rank.group().all_reduce(mean, ReduceOp::average);
    return mean;
  }
  return own;
}

void clip(Rank& rank, const std::vector<at::Tensor>& shards) {
  rank.at_branch();
  const at::Tensor own = total_grad_norm(shards);
  clip_grads_with_norm(shards, kMaxNorm, norm_of_all(rank, own));
  if (rank.has("logged", "of-all")) norm_over_ranks(rank.group(), own);
}

void train(Rank& rank) {
  TwoLayers model(kWidth, kWidth, kWidth, cpu_generator(rank.seed(0)));
  model.to(rank.device());
  const std::unique_ptr<ShardedModel> sharded = shard(rank, model);
  Training training(rank, model, training_options(rank), sharded.get());
  const auto loss = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, model, {kRows}, kWidth, kWidth);
  };
  training.run({
      .loss = loss,
      .reference =
          [&](std::int64_t step) {
            rank.mean_of_rank_gradients(model, [&](int owner) { return loss({owner, step}); });
            clip_grad_norm(model.parameters(), kMaxNorm);
          },
      .reduce = [&](std::int64_t) { clip(rank, sharded->parameters()); },
  });
}

/// No shard has a larger norm than the whole.
Expectation expect_shards_clipped_apart(const Cell& cell) {
  Pin pin = wrong_gradients_of(cell, {"up.*", "down.*"}, "a shard's norm is random");
  pin.ratio = Range{1.001, 1000};
  return pinned(expect_wrong_shards(), {pin});
}

/// Norms of n shards have a mean from 1 / n of the whole norm, if one has it all, to 1 / sqrt(n).
Expectation expect_clipped_too_little(const Cell& cell) {
  const double ranks = cell.world_size;
  return pinned(expect_wrong_shards(), {{.claim = kGradientsEqual,
                                         .steps = {1},
                                         .last_step = cell.steps,
                                         .ratio = Range{std::sqrt(ranks) * 0.999, ranks * 1.001},
                                         .cosine = kSameDirection}});
}

}  // namespace

Scenario clip_by_local_shard_norm() {
  return {
      .summary =
          "Each rank clips its shards by their own norm: gradients are clipped too little, and by "
          "another factor on every rank.",
      .origin =
          {"SpecForge, AReaL, PyTorch",
           "sgl-project/SpecForge#663 (2026-07-08), areal-project/AReaL#312 (2025-09-10); "
           "pytorch/pytorch#72548 (2022-02-08), #170862; pytorch/torchtitan#766",
           "clip_grad_norm_ on the shards of FSDP1 and FSDP2; the norm that SpecForge all-reduced "
           "after clipping",
           "DTensors, whose norms are all-reduced: here the shards, as after to_local; master "
           "copies. The mean of norms is ours"},
      .variants = {buggy("clipped-by-own-norm", "each rank clips its shards by their norm",
                         "norm=own logged=own", expect_shards_clipped_apart),
                   wrong_fix("reduced-for-the-log",
                             "the norm is all-reduced after each rank has clipped by its own",
                             "norm=own logged=of-all", expect_shards_clipped_apart),
                   wrong_fix("mean-of-norms",
                             "all ranks clip by the mean of their norms, which is too small",
                             "norm=mean logged=own", expect_clipped_too_little),
                   fixed("norm-of-all", "the squares are summed over the ranks before clipping",
                         "norm=of-all logged=own"),
                   reference("reference",
                             "one process: the mean gradients, clipped by their norm")},
      .axes = {rank_axis("engine", {"fsdp2", "fsdp1"}, "fsdp2")},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
