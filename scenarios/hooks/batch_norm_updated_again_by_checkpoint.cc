// An activation checkpoint contains a BatchNorm. Backward runs the segment again, so the statistics
// advance twice a step.

#include <optional>

#include "harness/train/loop/norm_between_layers.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 8;

at::Tensor run(Rank& rank, NormBetweenLayers& model, const at::Tensor& input) {
  if (rank.is_reference()) return model.forward(input);
  rank.at_branch();
  return model.run(input, rank.has("recompute", "frozen"),
                   {.early_stop = !rank.has("early_stop", "off")});
}

void train(Rank& rank) {
  NormBetweenLayers model(kWidth, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  Training training(rank, model, training_options(rank));
  const std::vector<std::int64_t> rows{rank.number("batch")};
  std::optional<FrozenStatistics> of_first_shard;
  training.run({.loss = [&](const MicroBatch& batch) {
    const bool is_first = batch.index == 0 && (!rank.is_reference() || batch.owner == 0);
    // DDP broadcasts rank 0's statistics, so changes by other shards are lost.
    if (rank.is_reference() && is_first) of_first_shard.reset();
    if (rank.is_reference() && batch.index == 0 && batch.owner == 1) of_first_shard.emplace(model);
    const Module::Forward forward = [&](const at::Tensor& input) {
      return training.forward([&] {
        if (is_first) rank.observe_buffers(Phase::pre_forward, model);
        return run(rank, model, input);
      });
    };
    return squared_error(rank, batch, forward, rows, kWidth, kWidth);
  }});
}

/// With momentum 0.1, a second run adds 0.09 to the 0.1 of the first. In step 1 the statistics are
/// right: DDP's constructor broadcast them.
Expectation expect_statistics_advanced_twice(const Cell& cell) {
  if (cell.steps == 1) return expect_hidden();
  Pin pin{.claim = kBuffersEqual,
          .steps = {2},
          .last_step = cell.steps,
          .tensors = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"},
          .groups = each_alone(cell)};
  if (number_on(cell, "accumulation") == 1) {
    const bool is_coarse = is_set(cell, "dtype", "bfloat16");
    pin.ratio = about(1.9, is_coarse ? 0.03 : 1e-3);
    pin.cosine = is_coarse ? Range{0.999, 1.001} : kSameDirection;
  } else {
    pin.why = "each micro-batch has other statistics";
  }
  return pinned({.breaks = {kBuffersEqual}, .symptom = SymptomKind::agree_but_wrong}, {pin});
}

std::vector<Variant> variants() {
  const std::vector<Claim> buffers{kBuffersAgree, kBuffersEqual};
  return {
      buggy("run-twice", "a BatchNorm in the checkpoint: its statistics advance twice a step",
            "recompute=plain", expect_statistics_advanced_twice)
          .with_claims(buffers),
      fixed("frozen-in-recompute", "the recomputation leaves the statistics unchanged",
            "recompute=frozen")
          .with_claims(buffers),
      reference(
          "reference",
          "one process, no checkpoint: mean gradients, and the statistics of the first shard"),
  };
}

}  // namespace

Scenario batch_norm_updated_again_by_checkpoint() {
  return {
      .summary =
          "A BatchNorm inside an activation checkpoint runs again in backward: its statistics "
          "advance twice a step.",
      .origin = {"unsloth", "pull request #4240 (2026-03-12)",
                 "a non-re-entrant checkpoint whose input is offloaded",
                 "the vision-language model: a BatchNorm between two layers"},
      .variants = variants(),
      .steps = 2,
      .axes = checkpoint_axes({}, {"run-twice", "frozen-in-recompute"}),
      .claims = replica_claims(),
      .precondition = refuse_no_sync_with_static_graph,
      .body = train,
  };
}

}  // namespace lockstep
