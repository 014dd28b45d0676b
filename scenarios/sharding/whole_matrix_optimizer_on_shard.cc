// Muon moves a weight along the orthogonalised mean of its gradients. That is a function of the
// whole matrix. If the optimizer is given a shard, it orthogonalises the shard: the step has
// another direction and another length, which depend on the number of ranks. Gradients are right,
// nothing is missing, and the loss falls.

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <optional>

#include "harness/train/loop/training.h"
#include "harness/train/optim/muon.h"
#include "harness/train/sharded/fully_shard.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 4;
constexpr std::int64_t kRows = 6;           // of each rank's batch
constexpr std::int64_t kHiddenOfRank = 4;   // rows of the first weight on each rank
constexpr std::int64_t kOutputsOfRank = 8;  // rows of the second one

/// Two weights with more rows than columns.
struct TallLayers : Module {
  TallLayers(int ranks, const at::Generator& generator)
      : first(register_module(
            "first", std::make_shared<Linear>(kInputs, kHiddenOfRank * ranks, generator, false))),
        second(register_module(
            "second", std::make_shared<Linear>(kHiddenOfRank * ranks, kOutputsOfRank * ranks,
                                               generator, false))) {}

  at::Tensor forward(const at::Tensor& input) override { return (*second)((*first)(input).tanh()); }

  std::shared_ptr<Linear> first, second;
};

/// In float32, so that the last bit of a gradient does not move the result by one of bfloat16.
Orthogonal orthogonalised_in_float32(const at::Tensor& update) {
  return orthogonalised(update, at::kFloat);
}

at::Tensor gathered_rows(ProcessGroup& group, const at::Tensor& shard) {
  at::Tensor own = shard.contiguous();
  at::Tensor whole = at::empty({shard.size(0) * group.size(), shard.size(1)}, shard.options());
  group.all_gather(whole, own);
  return whole;
}

/// Every rank orthogonalises the whole matrix and keeps its rows.
Orthogonal from_gathered(ProcessGroup& group, const at::Tensor& shard, bool has_scale_of_shard) {
  auto [whole, scale] = orthogonalised_in_float32(gathered_rows(group, shard));
  if (has_scale_of_shard) scale = orthogonalised_in_float32(shard).scale;
  return {whole.narrow(0, group.rank() * shard.size(0), shard.size(0)), scale};
}

/// Every rank keeps its rows, and the ranks add their parts of the Gram matrix, which is small.
Orthogonal from_summed_gram(ProcessGroup& group, const at::Tensor& shard) {
  at::Tensor squares = shard.pow(2).sum();
  group.all_reduce(squares, ReduceOp::sum);
  at::Tensor rows = shard / squares.sqrt();
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    at::Tensor gram = rows.t().mm(rows);
    group.all_reduce(gram, ReduceOp::sum);
    rows = newton_schulz_step(rows, gram);
  }
  const auto rows_of_all = static_cast<double>(shard.size(0) * group.size());
  return {rows, std::sqrt(rows_of_all / static_cast<double>(shard.size(1)))};
}

Orthogonal orthogonalise(Rank& rank, const at::Tensor& update) {
  if (rank.is_reference()) return orthogonalised_in_float32(update);
  rank.at_branch();
  if (rank.has("matrix", "shard")) return orthogonalised_in_float32(update);
  if (rank.has("matrix", "summed-gram")) return from_summed_gram(rank.group(), update);
  return from_gathered(rank.group(), update, rank.has("scale", "shard"));
}

void train(Rank& rank) {
  const int ranks = rank.world_size();
  TallLayers model(ranks, cpu_generator(rank.seed(0)));
  model.to(rank.device());
  std::unique_ptr<FullyShard> sharded;
  if (!rank.is_reference()) {
    sharded = std::make_unique<FullyShard>(model, std::vector<Module*>{}, rank.group());
  }
  TrainingOptions options;
  options.observes_updates = true;
  Training training(rank, model, options, sharded.get());
  Muon muon(sharded ? sharded->parameters() : model.parameters(), /*learning_rate=*/0.05,
            {.weight_decay = 0},
            [&](const at::Tensor& update) { return orthogonalise(rank, update); });
  training.run(
      {.loss =
           [&](const MicroBatch& batch) {
             const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
             return squared_error(rank, batch, forward, {kRows}, kInputs, kOutputsOfRank * ranks);
           },
       .update = [&](std::int64_t) { muon.step(); }});
}

Expectation expect_other_steps(const Cell& cell, Range cosine, std::optional<Range> ratio) {
  const std::vector<std::string> weights{"first.weight", "second.weight"};
  Expectation expectation = expect_wrong_updates(cell, weights);
  expectation.pins.back().why = "a step is a random part of the weight";
  expectation.breaks.push_back(kUpdatesEqual);
  return pinned(std::move(expectation), {{.claim = kUpdatesEqual,
                                          .steps = {1},
                                          .last_step = cell.steps,
                                          .tensors = weights,
                                          .ratio = ratio,
                                          .cosine = cosine}});
}

/// How far a shard's directions are from the whole's is random.
Expectation expect_steps_of_shards(const Cell& cell) {
  return expect_other_steps(cell, kOtherDirection, std::nullopt);
}

/// A step has the length of the root of rows / columns, and 1 at least. The first weight is as wide
/// as its shard is high.
Expectation expect_short_steps(const Cell& cell) {
  return expect_other_steps(cell, kSameDirection, about(1 / std::sqrt(cell.world_size)));
}

}  // namespace

Scenario whole_matrix_optimizer_on_shard() {
  return {
      .summary =
          "Muon orthogonalises the shard of a weight instead of the whole: gradients are right, "
          "and "
          "steps depend on the number of ranks.",
      .origin =
          {"DeepSpeed, Megatron-LM, Muon",
           "deepspeedai/DeepSpeed#8437 (2026-09-06); NVIDIA/Megatron-LM#6380 (2026-08-09); "
           "KellerJordan/Muon#45 (2025-08-04)",
           "torch's Muon on rows of FSDP2; Megatron's modes blockwise, duplicated and distributed, "
           "of which the first was its default",
           "AutoTP: here FSDP2, which also cuts weights into rows; flattened shards, which are no "
           "matrices; the optimizer of other parameters; bfloat16"},
      .variants =
          {buggy("shard-orthogonalised", "each rank orthogonalises its rows", "matrix=shard",
                 expect_steps_of_shards),
           wrong_fix("scaled-as-shard",
                     "the whole is orthogonalised, but the step is scaled by the shard's shape",
                     "matrix=gathered scale=shard", expect_short_steps),
           fixed("gathered", "each rank gathers the update, orthogonalises it, and takes its rows",
                 "matrix=gathered scale=whole"),
           fixed("gram-summed", "the ranks sum their Gram matrices in each Newton-Schulz step",
                 "matrix=summed-gram"),
           reference("reference", "one process: whole weights, the mean of all ranks' gradients")},
      .claims = claims_before({kUpdatesEqual}, sharded_claims()),
      .body = train,
  };
}

}  // namespace lockstep
