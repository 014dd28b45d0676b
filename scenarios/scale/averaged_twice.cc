// DDP's gradients are means over the ranks. A trainer that divides by the ranks as well, in its
// loss or afterwards, trains with a fraction of the right gradients: ranks agree, the loss falls,
// and the learning rate depends on the number of processes. An average of averages is no such
// fault: it only costs a second all-reduce.

#include <ATen/TensorOperators.h>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

/// The mean loss of all ranks in place of the rank's own: the collective is not differentiable, so
/// backward only sees the division.
at::Tensor mean_loss_of_ranks(Rank& rank, const at::Tensor& loss) {
  at::Tensor value = loss.detach();  // shares the storage
  rank.group().all_reduce(value, ReduceOp::sum);
  return loss / rank.world_size();
}

at::Tensor scaled_loss(Rank& rank, const at::Tensor& loss) {
  if (rank.has("loss", "mean-of-ranks")) return mean_loss_of_ranks(rank, loss);
  return rank.has("loss", "divided") ? loss / rank.world_size() : loss;
}

/// What the trainer does with DDP's gradients.
void after_ddp(Rank& rank, const Module& model) {
  if (rank.has("after", "averaged")) return average_each(rank.group(), model.parameters());
  for (const at::Tensor& parameter : model.parameters()) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (rank.has("after", "summed")) rank.group().all_reduce(gradient, ReduceOp::sum);
    if (rank.has("after", "divided")) gradient /= rank.world_size();
    if (rank.has("after", "multiplied")) gradient *= rank.world_size();
  }
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  if (rank.has("learning_rate", "times-ranks")) options.learning_rate *= rank.world_size();
  Training training(rank, model, options);
  if (rank.has("hook", "sum")) training.ddp()->register_comm_hook(sum_bucket);
  training.run({.loss =
                    [&](const MicroBatch& batch) {
                      const at::Tensor loss = squared_error(
                          rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs),
                          [&](const at::Tensor& input) { return training.forward(input); });
                      rank.at_branch();
                      return scaled_loss(rank, loss);
                    },
                .reduce = [&](std::int64_t) { after_ddp(rank, model); }});
}

Expectation expect_divided_twice(const Cell& cell) {
  return expect_multiple(cell, 1.0 / cell.world_size);
}

Expectation expect_summed(const Cell& cell) { return expect_multiple(cell, cell.world_size); }

/// The steps are right again, but what is clipped or logged is not.
Expectation expect_longer_steps(const Cell& cell) {
  return expect_multiple(cell, 1.0 / cell.world_size, /*parameters_move=*/false);
}

}  // namespace

Scenario averaged_twice() {
  return {
      .summary =
          "DDP averages, and the trainer divides by the ranks once more: all agree on gradients "
          "that are 1 / ranks of the right ones.",
      .origin =
          {"bgpt, verl-SpeCo, pytorch-operator",
           "sanderwood/bgpt#5 (2024-09-30), verl-project/verl-SpeCo#29 (2026-07-17), "
           "kubeflow/pytorch-operator#122; facebookresearch/fairseq#494, neuralmagic/sparseml#135",
           "the loss that is averaged over ranks before backward; the example that averages after "
           "DDP; the trainers that undo DDP's division",
           "FSDP, whose reduction also averages; counts of tokens; AdamW, which divides by the "
           "size of "
           "the gradients and hides the factor in the weights"},
      .variants = {buggy("loss-divided", "the loss is divided by the ranks, and DDP averages",
                         "loss=divided", expect_divided_twice),
                   buggy("loss-averaged-first",
                         "the loss is all-reduced and divided before backward: its value is right",
                         "loss=mean-of-ranks", expect_divided_twice),
                   buggy("gradients-divided", "DDP's means are divided by the ranks",
                         "after=divided", expect_divided_twice),
                   latent("averaged-again", "DDP's means are averaged again: slower, and the same",
                          "after=averaged"),
                   wrong_fix("summed-again",
                             "DDP's means are summed, because the ranks are already divided by",
                             "after=summed", expect_summed),
                   wrong_fix("learning-rate-times-ranks",
                             "the learning rate is multiplied by the ranks, the gradients are not",
                             "loss=divided learning_rate=times-ranks", expect_longer_steps),
                   fixed("divided-by-ddp", "only DDP divides", "loss=own"),
                   fixed("multiplied-back",
                         "the loss is divided, and gradients are multiplied after DDP",
                         "loss=divided after=multiplied"),
                   fixed("summed-by-hook", "only the loss is divided: a communication hook sums",
                         "loss=divided hook=sum"),
                   reference("reference", "one process: the mean of all shards' gradients")},
      .axes = {switch_axis("bucket_view", false)},
      .claims = replica_claims(),
      .body = train,
  };
}

}  // namespace lockstep
