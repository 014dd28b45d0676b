// A tiled MLP cuts its input along the sequence, but takes each tile's gradients from the flattened
// buffer. For a batch of one sequence the two slices are the same. For a larger batch they differ:
// forward is right, ranks agree, and gradients belong to other rows.

#include <ATen/TensorOperators.h>

#include <utility>

#include "harness/train/loop/tiled_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/mlp_layers.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;

/// Observes the mean over all ranks and micro-batches, as a trainer logs it.
class LossLog {
 public:
  LossLog(Rank& rank, std::int64_t accumulation) : rank_(rank), accumulation_(accumulation) {}

  void add(const MicroBatch& batch, const at::Tensor& loss) {
    sum_ = sum_.defined() ? sum_ + loss.detach() : loss.detach();
    const bool is_last_rank = !rank_.is_reference() || batch.owner + 1 == rank_.world_size();
    if (batch.index + 1 < accumulation_ || !is_last_rank) return;
    at::Tensor mean = std::exchange(sum_, at::Tensor()) / accumulation_ / rank_.world_size();
    if (!rank_.is_reference()) rank_.group().all_reduce(mean, ReduceOp::sum);
    rank_.observer().begin_micro_batch(0);  // the reference is at another rank's
    rank_.observer().observe(Phase::pre_forward, Kind::loss, {"loss", mean});
  }

 private:
  Rank& rank_;
  std::int64_t accumulation_;
  at::Tensor sum_;
};

void train(Rank& rank) {
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(rank.cell()));
  if (!rank.is_reference()) {
    rank.at_branch();
    for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling_options(rank));
  }
  TrainingOptions options = training_options(rank);
  if (rank.world_size() == 1) options.sync = GradientSync::none;
  Training training(rank, model, options);
  const auto forward = [&](const at::Tensor& input) { return training.forward(input); };
  const std::vector<std::int64_t> rows{rank.number("batch"), rank.number("length")};
  LossLog log(rank, options.accumulation);
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor loss = squared_error(rank, batch, forward, rows, kModel.inputs, 1);
    log.add(batch, loss);
    return loss;
  }});
}

Expectation expect_other_rows(const Cell& cell) {
  if (number_on(cell, "batch") == 1 || number_on(cell, "tiles") == 1) return expect_hidden();
  Expectation expectation = expect_agree_but_wrong();
  Pin rows = wrong_gradients_of(cell, {"embedding.*", "layers.*"}, "the rows are drawn");
  rows.cosine = kOtherDirection;
  rows.groups = each_alone(cell);
  expectation.pins = {rows};
  if (cell.steps == 1) return expectation;
  expectation.breaks.push_back(kLossesEqual);
  expectation.pins.push_back({.claim = kLossesEqual, .steps = {2}, .tensors = {"loss"}});
  return expectation;
}

}  // namespace

Scenario tile_slices_from_flattened_buffer() {
  return {
      .summary =
          "Tiles are cut along the sequence, their gradients from the flattened buffer: right for "
          "one sequence, silently wrong for a batch of two.",
      .origin = {"axolotl", "pull request #2950 (merged 2025-07-25)",
                 "the cut along the sequence, the flattened slices, the reviewer's offsets, DDP",
                 "the gradient accumulator: tiled-gradient-accumulator-under-ddp"},
      .variants =
          {buggy("fixed-steps",
                 "as merged: tile i's slice begins at i times the size of the first tile",
                 "tile_cut=chunked-sequence tile_slices=fixed-step", expect_other_rows),
           wrong_fix("cumulative-offsets",
                     "a reviewer's version: each slice begins at the end of the previous one",
                     "tile_cut=chunked-sequence tile_slices=cumulative-step", expect_other_rows),
           fixed("flattened-tiles", "DeepSpeed's way: the input is flattened before it is cut, too",
                 "tile_cut=chunked-rows tile_slices=fixed-step"),
           fixed("sliced-as-cut", "gradients are cut along the sequence, as the input is",
                 "tile_cut=chunked-sequence tile_slices=own"),
           reference("reference", "one process, untiled", "tiles=1 tile_backward=grad-but-last")},
      .worlds = worlds_from(1),
      .axes = {{"batch", {"1", "2", "3"}, "2"},
               {"length", {"6", "9"}, "6"},
               {"tiles", {"1", "2", "3", "4"}, "4"},
               {"tile_backward", {"grad-but-last", "explicit-inputs"}, "grad-but-last"},
               accumulation_axis(),
               dtype_axis()},
      .claims = claims_before({kLossesAgree, kLossesEqual}, replica_claims()),
      .body = train,
  };
}

}  // namespace lockstep
