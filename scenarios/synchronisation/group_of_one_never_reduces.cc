// Ranks split their data in two ways: rows of a mesh have samples of their own, and the ranks of a
// row each take a part of the same sequences. A trainer that reduces gradients over the first way
// alone leaves out what the ranks of a row saw. With a single row the group has one rank: its
// all-reduce does nothing and raises nothing, and each rank trains alone.

#include <ATen/TensorOperators.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/ddp/mesh.h"
#include "harness/train/loop/mesh_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/sharded/flat_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFeatures = 3;
constexpr std::int64_t kOutputs = 2;
constexpr std::int64_t kTokens = 4;  // of a rank's part of a sequence

/// Ranks that share a sequence.
int parts(const Cell& cell) { return columns_of_mesh(cell); }

/// The summed error of a rank's part of the sequence of its row, over the tokens of the part.
at::Tensor loss_of_part(Rank& rank, const MicroBatch& batch, const Module::Forward& forward) {
  const MeshPlace place = place_in_mesh(batch.owner, rank.world_size(), parts(rank.cell()));
  const std::int64_t length = kTokens * parts(rank.cell());
  const MicroBatch sequence{place.row, batch.step};
  const auto of_part = [&](const at::Tensor& whole) {
    return whole.narrow(0, place.column * kTokens, kTokens);
  };
  const at::Tensor target = normal_input(rank, sequence, 2'000'000, {length, kOutputs});
  const at::Tensor input = normal_input(rank, sequence, 1'000'000, {length, kFeatures});
  return (forward(of_part(input)) - of_part(target)).pow(2).sum() / kTokens;
}

void train_with_ddp(Rank& rank, Module& model, const Mesh& mesh) {
  TrainingOptions options = training_options(rank);
  options.sync = GradientSync::none;
  Training training(rank, model, options);
  rank.at_branch();
  DistributedDataParallel ddp(
      model, rank.has("reduced_over", "rows") ? mesh.column() : rank.group(), options.ddp);
  StepHooks hooks;
  hooks.loss = [&](const MicroBatch& batch) {
    const at::Tensor loss =
        loss_of_part(rank, batch, [&](const at::Tensor& input) { return ddp.forward(input); });
    return rank.has("divided_by", "whole-sequence") ? loss / parts(rank.cell()) : loss;
  };
  hooks.reduce = [&](std::int64_t) {
    if (rank.has("then", "averaged")) average_each(mesh.row(), model.parameters());
    if (!rank.has("then", "summed")) return;
    for (const at::Tensor& parameter : model.parameters()) {
      mesh.row().all_reduce(parameter.mutable_grad(), ReduceOp::sum);
    }
  };
  training.run(hooks);
}

/// Hybrid sharding of FSDP1 with one rank to shard over: the model stays whole, and the engine
/// still reduces over the ranks that it would have sharded over.
void train_unsharded(Rank& rank, Module& model) {
  model.to(rank.device());
  rank.at_branch();
  const Mesh mesh(rank.group(), /*columns=*/1);
  FlatShard sharded(model, {}, rank.has("reduced_over", "shards") ? mesh.row() : rank.group(),
                    FlatStrategy::no_shard);
  Training training(rank, model, training_options(rank), &sharded);
  training.run({.loss = [&](const MicroBatch& batch) {
    return loss_of_part(rank, batch,
                        [&](const at::Tensor& input) { return training.forward(input); });
  }});
}

void train(Rank& rank) {
  TwoLayers model(kFeatures, 5, kOutputs, cpu_generator(rank.seed(0)));
  if (rank.is_reference()) {
    return Training(rank, model, training_options(rank)).run({.loss = [&](const MicroBatch& batch) {
      return loss_of_part(rank, batch, [&](const at::Tensor& input) { return model(input); });
    }});
  }
  if (rank.has("engine", "fsdp1")) return train_unsharded(rank, model);
  train_with_ddp(rank, model, Mesh(rank.group(), parts(rank.cell())));
}

/// Ranks with the same part of their sequences agree with each other.
Expectation expect_parts_apart(const Cell& cell) {
  const int columns = parts(cell);
  if (columns == 1) return expect_hidden();
  if (columns == cell.world_size) return expect_never_reduced(cell);
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(columns));
  for (int rank = 0; rank < cell.world_size; ++rank) {
    groups[static_cast<std::size_t>(rank % columns)].push_back(rank);
  }
  return pinned(
      expect_ranks_differ(),
      {{.claim = kGradientsAgree, .steps = {1}, .last_step = cell.steps, .groups = groups},
       {.claim = kGradientsEqual,
        .steps = {1},
        .last_step = cell.steps,
        .groups = each_alone(cell),
        .why = "the mean over the same parts of all sequences"}});
}

Expectation expect_each_rank_alone(const Cell& cell) { return expect_never_reduced(cell); }

/// The sum of means is as many times too large as there are parts.
Expectation expect_sum_of_parts(const Cell& cell) {
  return parts(cell) == 1 ? expect_hidden() : expect_multiple(cell, parts(cell));
}

}  // namespace

Scenario group_of_one_never_reduces() {
  return {
      .summary =
          "Gradients are reduced over a group that leaves out a way in which the data is split: a "
          "group of one rank reduces nothing, without an error.",
      .origin =
          {"VeOmni, verl, speculators",
           "ByteDance-Seed/VeOmni#1115 (2026-08-24); verl-project/verl#7493 (2026-08-20), #7494; "
           "the sum over parts: vllm-project/speculators#871",
           "DDP over the data-parallel group of a mesh whose rows split sequences; FSDP1 with a "
           "group of one to shard over",
           "attention, and so the exchange of heads between parts: here each token has an error "
           "of its own; the replicas of hybrid sharding, over which FSDP1 does not reduce then"},
      .variants =
          {buggy("reduced-over-rows",
                 "DDP's group has one rank of each row: the parts of a sequence stay apart",
                 "engine=ddp reduced_over=rows", expect_parts_apart),
           buggy("sharded-over-one",
                 "FSDP1 shards over one rank, keeps the model whole and reduces over that rank",
                 "engine=fsdp1 reduced_over=shards", expect_each_rank_alone),
           wrong_fix("summed-over-parts",
                     "the parts are summed afterwards, but each is already a mean",
                     "engine=ddp reduced_over=rows then=summed", expect_sum_of_parts),
           fixed("reduced-over-all", "DDP's group has all ranks that split the data",
                 "engine=ddp reduced_over=all"),
           fixed("averaged-over-parts", "DDP over the rows, then a mean over the parts",
                 "engine=ddp reduced_over=rows then=averaged"),
           fixed("summed-parts-of-whole",
                 "each part is divided by the tokens of the whole sequence, then they are summed",
                 "engine=ddp reduced_over=rows then=summed divided_by=whole-sequence"),
           fixed("unsharded-over-all", "FSDP1 without sharding, over all ranks",
                 "engine=fsdp1 reduced_over=all"),
           reference("reference", "one process: the mean over all tokens of all sequences")},
      .axes = {{"rows", {"1", "2"}, "1"}},
      .claims = replica_claims(),
      .precondition = refuse_uneven_rows,
      .body = train,
  };
}

}  // namespace lockstep
