// A tiled MLP cuts its input along the sequence, and takes each tile's part of the gradients from
// the flattened buffer. In a batch of one sequence that is the same place. In a larger batch it is
// not: forward is right, ranks agree, and gradients belong to other rows.

#include <ATen/TensorOperators.h>

#include <utility>

#include "harness/train/autograd/tiled.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/nn/mlp_layers.h"

namespace lockstep {

namespace {

constexpr MlpLayersOptions kModel;

/// How the MLPs are tiled in the cell's variant; where variants part.
TilingOptions tiling_of(Rank& rank) {
  const Cell& cell = rank.cell();
  TilingOptions tiling{.tiles = number_on(cell, "tiles"), .cut = TileCut::chunked_sequence};
  const bool is_explicit = is_set(cell, "tile_backward", "explicit-inputs");
  tiling.backward = is_explicit ? TileBackward::explicit_inputs : TileBackward::grad_but_last;
  if (rank.is("fixed-steps")) {
    tiling.slices = TileSlices::fixed_step;
  } else if (rank.is("cumulative-offsets")) {
    tiling.slices = TileSlices::cumulative_step;
  } else if (rank.is("flattened-tiles")) {
    tiling.cut = TileCut::chunked_rows;
    tiling.slices = TileSlices::fixed_step;
  } else {
    rank.is(cell.variant);  // `sliced-as-cut`
  }
  return tiling;
}

/// The mean over all ranks and micro-batches, as a trainer logs it.
class LossLog {
 public:
  LossLog(Rank& rank, std::int64_t accumulation) : rank_(rank), accumulation_(accumulation) {}

  void add(const MicroBatch& batch, const at::Tensor& loss) {
    sum_ = sum_.defined() ? sum_ + loss.detach() : loss.detach();
    const bool is_reference = rank_.cell().role == Role::reference;
    const bool is_last_rank = !is_reference || batch.owner + 1 == rank_.world_size();
    if (batch.index + 1 < accumulation_ || !is_last_rank) return;
    at::Tensor mean = std::exchange(sum_, at::Tensor()) / accumulation_ / rank_.world_size();
    if (!is_reference) rank_.group().all_reduce(mean, ReduceOp::sum);
    rank_.observer().begin_micro_batch(0);  // the reference is at another rank's
    rank_.observer().observe(Phase::pre_forward, Kind::loss, {"loss", mean});
  }

 private:
  Rank& rank_;
  std::int64_t accumulation_;
  at::Tensor sum_;
};

void train(Rank& rank) {
  const Cell& cell = rank.cell();
  MlpLayers model(kModel, cpu_generator(rank.seed(0)));
  model.to(dtype_of(cell));
  if (cell.role == Role::reference) {
    rank.is("reference");
  } else {
    const TilingOptions tiling = tiling_of(rank);
    for (Module* mlp : model.mlps()) tile_calls(*mlp, tiling);
  }
  const std::int64_t rows = number_on(cell, "batch");
  const std::int64_t length = number_on(cell, "length");
  MicroBatchOptions options = micro_batch_options(cell);
  options.wraps = cell.world_size > 1;
  LossLog log(rank, options.accumulation);
  train_in_micro_batches(rank, model, options, [&](const MicroBatch& batch, auto* ddp) {
    const at::Tensor input = normal_input(rank, batch, 1'000'000, {rows, length, kModel.inputs});
    const at::Tensor target = normal_input(rank, batch, 2'000'000, {rows, length, 1});
    const at::Tensor output = ddp ? ddp->forward(input) : model(input);
    const at::Tensor loss = (output - target).pow(2).mean();
    log.add(batch, loss);
    return loss;
  });
}

Expectation expect(const Cell& cell) {
  if (!is_faulty(cell)) return {};
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

std::vector<Variant> variants() {
  return {
      {.name = "fixed-steps",
       .role = Role::buggy,
       .summary =
           "DDP, as it was merged: tile i's slice begins at i times the size of the first tile"},
      {.name = "cumulative-offsets",
       .role = Role::wrong_fix,
       .summary = "DDP, a reviewer's version: it begins where the slices before it end"},
      {.name = "flattened-tiles",
       .role = Role::fixed,
       .summary = "DDP, DeepSpeed's way: the input is flattened before it is cut too"},
      {.name = "sliced-as-cut",
       .role = Role::fixed,
       .summary = "DDP: gradients are cut along the sequence, as the input is"},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process, untiled",
       .without = {"tiles", "tile_backward"}},
  };
}

std::vector<Axis> axes() {
  return {
      {"batch", {"1", "2", "3"}, "2"},
      {"length", {"6", "9"}, "6"},
      {"tiles", {"1", "2", "3", "4"}, "4"},
      {"tile_backward", {"grad-but-last", "explicit-inputs"}, "grad-but-last"},
      {"accumulation", {"1", "2"}, "1"},
      {"dtype", {"float32", "float64"}, "float32"},
  };
}

}  // namespace

Scenario tile_slices_from_flattened_buffer() {
  return {
      .id = "tile-slices-from-flattened-buffer",
      .summary =
          "Tiles are cut along the sequence and their gradients from the flattened buffer: "
          "right for one sequence, silently wrong for a batch of two.",
      .provenance = {.project = "axolotl",
                     .link = "pull request #2950 (merged 2025-07-25)",
                     .kept = "the cut along the sequence, the slices of the flattened gradients, "
                             "the reviewer's cumulative offsets; DDP as the engine",
                     .left_out = "the accumulator of gradients, which is a scenario of its own: "
                                 "parameters get theirs without hooks, or as inputs of the "
                                 "function"},
      .worlds = worlds_from(1),
      .steps = 3,
      .axes = axes(),
      .variants = variants(),
      .claims = claims_before({kLossesAgree, kLossesEqual}, replica_claims()),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
