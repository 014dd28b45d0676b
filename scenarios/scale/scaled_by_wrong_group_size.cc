// DDP's means over the data-parallel ranks are multiplied back when the loss is divided by the
// tokens of all of them. In a mesh whose rows compute the same batch together, a trainer that takes
// the number of all processes for that of data-parallel ones trains with a multiple of the right
// gradients, and one that counts the tokens over all processes with a fraction. Both at once
// cancel.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "harness/train/ddp/mesh.h"
#include "harness/train/loop/mesh_cells.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFeatures = 4;
constexpr std::int64_t kOutputs = 3;

/// Ranks of a row, which compute the same batch.
int copies(const Cell& cell) { return columns_of_mesh(cell); }

/// Of the batch of a row: 1, 3, 5, ...
std::int64_t tokens_of(int row) { return 1 + 2 * row; }

std::int64_t tokens_of_all(int rows) { return static_cast<std::int64_t>(rows) * rows; }

at::Tensor summed_error(Rank& rank, const MicroBatch& batch, const Module::Forward& forward) {
  const int row = place_in_mesh(batch.owner, rank.world_size(), copies(rank.cell())).row;
  const MicroBatch of_row{row, batch.step};
  const at::Tensor target = normal_input(rank, of_row, 2'000'000, {tokens_of(row), kOutputs});
  const at::Tensor input = normal_input(rank, of_row, 1'000'000, {tokens_of(row), kFeatures});
  return (forward(input) - target).pow(2).sum();
}

double reduced_count(ProcessGroup& group, int row, ReduceOp op) {
  at::Tensor tokens =
      at::full({}, tokens_of(row), at::TensorOptions(group.device()).dtype(at::kFloat));
  group.all_reduce(tokens, op);
  return tokens.item<double>();
}

/// What a rank divides its sum by. DDP divides by the data-parallel ranks as well.
double normaliser(Rank& rank, const Mesh& mesh) {
  rank.at_branch();
  const int row = mesh.place().row;
  if (rank.has("count", "mean")) return reduced_count(rank.group(), row, ReduceOp::average);
  const double tokens =
      reduced_count(rank.has("count", "world") ? rank.group() : mesh.column(), row, ReduceOp::sum);
  return tokens / (rank.has("times", "world") ? rank.world_size() : mesh.column().size());
}

void train(Rank& rank) {
  TwoLayers model(kFeatures, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.sync = GradientSync::none;
  Training training(rank, model, options);
  if (rank.is_reference()) {
    const int rows = rows_of_mesh(rank.cell());
    const double tokens = static_cast<double>(tokens_of_all(rows)) / rows;
    return training.run({.loss = [&](const MicroBatch& batch) {
      return summed_error(rank, batch, [&](const at::Tensor& input) { return model(input); }) /
             tokens;
    }});
  }
  const Mesh mesh(rank.group(), copies(rank.cell()));
  DistributedDataParallel ddp(model, mesh.column(), options.ddp);
  training.run({.loss = [&](const MicroBatch& batch) {
    const at::Tensor sum =
        summed_error(rank, batch, [&](const at::Tensor& input) { return ddp.forward(input); });
    return sum / normaliser(rank, mesh);
  }});
}

Expectation expect_times_copies(const Cell& cell) {
  return copies(cell) == 1 ? expect_hidden() : expect_multiple(cell, copies(cell));
}

Expectation expect_divided_by_copies(const Cell& cell) {
  return copies(cell) == 1 ? expect_hidden() : expect_multiple(cell, 1.0 / copies(cell));
}

}  // namespace

Scenario scaled_by_wrong_group_size() {
  return {
      .summary =
          "The loss is multiplied by all processes, but only some split the data: gradients are as "
          "many times too large as there are ranks with the same batch.",
      .origin =
          {"transformers",
           "huggingface/transformers#39648 (2025-07-24), #39674, #45994 (2026-05-15)",
           "a mesh whose rows compute the same batch; the tokens of all batches as divisor; the "
           "factor and the count of #39648, repaired one by one",
           "tensor and expert parallel layers, which compute the batch together: here each rank of "
           "a row computes all of it"},
      .variants = {buggy("times-all-processes", "the loss is multiplied by the size of the world",
                         "count=data-parallel times=world", expect_times_copies),
                   wrong_fix(
                       "counted-over-all-processes",
                       "the factor is right, but the tokens of a batch are counted once per copy",
                       "count=world times=data-parallel", expect_divided_by_copies),
                   latent("both-over-all-processes",
                          "the factor and the count have the copies: they cancel",
                          "count=world times=world"),
                   fixed("both-over-data-parallel", "the factor and the count leave the copies out",
                         "count=data-parallel times=data-parallel"),
                   fixed("mean-count", "the mean count over all processes, and no factor",
                         "count=mean"),
                   reference("reference", "one process: the mean over the tokens of all batches")},
      .axes = {{"rows", {"1", "2"}, "1"}, switch_axis("bucket_view", false)},
      .claims = replica_claims(),
      .precondition = refuse_uneven_rows,
      .body = train,
  };
}

}  // namespace lockstep
