// One rank has one batch less than the others. They wait for it in a gradient reduction while it is
// in the evaluation after the loop. A fix has to decide about the others' last batch. It can drop
// the batch, or let the short rank repeat its first batch or contribute zeros. With zeros, it also
// has to choose the divisor of the sum.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <optional>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

/// The rank with one batch less. It has none in the last step.
int short_rank(const Cell& cell) {
  return is_set(cell, "short-rank", "first") ? 0 : cell.world_size - 1;
}

std::int64_t batches_of(const Cell& cell, int owner) {
  return owner == short_rank(cell) ? cell.steps - 1 : cell.steps;
}

/// DDP's join if the variant uses it.
std::optional<DistributedDataParallel::Join> join_of(Rank& rank, Training& training) {
  using Join = DistributedDataParallel::Join;
  if (rank.has("divisor", "all-ranks")) return Join(*training.ddp());
  if (!rank.has("divisor", "ranks-with-batches")) return std::nullopt;
  return Join(*training.ddp(), Join::Divisor::ranks_with_batches);
}

/// The loss of a rank's batch, counted from 1.
using LossOfBatch = std::function<at::Tensor(std::int64_t number)>;

/// Computes the gradients of a step in which some ranks may lack a batch. False: the rank leaves
/// the loop.
bool train_step(Rank& rank, Training& training, std::int64_t step, const LossOfBatch& loss_of) {
  rank.at_branch();
  ProcessGroup& group = rank.group();
  const bool has_batch = step <= batches_of(rank.cell(), rank.rank());
  double share = has_batch ? 1 : 0;
  if (rank.has("join")) {
    if (!has_batch) return true;
  } else if (rank.is("own-batches") || rank.is("barrier-before-leaving")) {
    if (!has_batch && rank.is("barrier-before-leaving")) group.barrier();
    if (!has_batch) return false;
  } else if (rank.is("fewest-batches")) {
    if (least_of_ranks(group, share) == 0) return true;
  } else if (rank.is("zeros-while-any-has")) {
    if (largest_of_ranks(group, share) == 0) return true;
  } else if (rank.is("first-batch-again")) {
    share = 1;
  } else if (rank.is("zeros-divided-by-those-that-have")) {
    at::Tensor present = at::zeros({1}, group.device()) + share;
    group.all_reduce(present, ReduceOp::sum);
    share *= rank.world_size() / present.item<double>();
  }
  training.backward(loss_of(has_batch ? step : 1) * share);
  return true;
}

void compute_reference(Rank& rank, Module& model, std::int64_t step,
                       const std::function<at::Tensor(int owner, std::int64_t number)>& loss_of) {
  const bool is_last = step == rank.cell().steps;
  if (rank.is("reference-of-fewest-batches") && is_last) return;
  const double share = rank.is("reference-of-repeated-batch") ? 1 : 0;
  rank.mean_of_rank_gradients(model, [&](int owner) {
    const bool has_batch = step <= batches_of(rank.cell(), owner);
    return has_batch ? loss_of(owner, step) : loss_of(owner, 1) * share;
  });
  if (!rank.is("reference-of-those-that-have") || !is_last) return;
  const double ranks = rank.world_size();
  for (const at::Tensor& parameter : model.parameters()) {
    parameter.mutable_grad() *= ranks / (ranks - 1);
  }
}

void evaluate(Rank& rank, Module& model) {
  at::Tensor score =
      model.forward(at::zeros({1, 3}, rank.device())).detach().pow(2).mean().reshape({1});
  at::Tensor scores = at::zeros({rank.group().size()}, score.options());
  rank.group().all_gather(scores, score);
}

void train(Rank& rank) {
  TwoLayers model(3, 5, 2, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.ddp.bucket_bytes = 1;
  Training training(rank, model, options);
  auto join = join_of(rank, training);
  const auto loss_of = [&](int owner, std::int64_t number) {
    return squared_error(rank, {owner, number}, regression_of_rank(owner, 3, 2),
                         [&](const at::Tensor& input) { return training.forward(input); });
  };
  training.run({
      .gradients =
          [&](std::int64_t step) {
            return train_step(rank, training, step,
                              [&](std::int64_t number) { return loss_of(rank.rank(), number); });
          },
      .reference = [&](std::int64_t step) { compute_reference(rank, model, step, loss_of); },
      .update =
          [&](std::int64_t step) {
            training.optimizer().step();
            if (join && step == rank.cell().steps) join->finish();
          },
  });
  if (rank.is_reference()) return;
  if (rank.is("barrier-before-leaving")) rank.group().barrier();
  evaluate(rank, model);
}

/// The step is that of the lowest rank: its last one, or 0 if that rank has left the loop.
Expectation expect_left_alone(const Cell& cell) {
  const bool has_left = short_rank(cell) == 0 && cell.variant != "barrier-before-leaving";
  return expect_ranks_do_not_meet(MismatchFault::operation, has_left ? 0 : cell.steps,
                                  odd_ranks(cell, short_rank(cell)));
}

std::string precondition(const Cell& cell) {
  return cell.steps > 1 ? "" : "a rank without any batch has no first one";
}

/// A joined rank has no gradients, so the variants with a join make no claim about them.
std::vector<Variant> variants() {
  const std::vector<Claim> gradients{kGradientsAgree, kGradientsEqual};
  return {
      buggy("own-batches", "each rank trains until its own batches end, then evaluates", "",
            expect_left_alone)
          .with_claims(gradients)
          .hanging(),
      fixed("fewest-batches",
            "before each step, ranks check that all have a batch; the rest is dropped")
          .compared_with("reference-of-fewest-batches")
          .with_claims(gradients),
      fixed("first-batch-again", "the rank repeats its first batch, as samplers pad")
          .compared_with("reference-of-repeated-batch")
          .with_claims(gradients),
      fixed("zeros-while-any-has",
            "a rank without a batch contributes zeros; the sum is divided by all ranks")
          .with_claims(gradients),
      fixed("zeros-divided-by-those-that-have",
            "a rank without a batch contributes zeros; divided by the ranks with a batch")
          .compared_with("reference-of-those-that-have")
          .with_claims(gradients),
      fixed("join",
            "DDP's join: a rank without a batch reduces zeros and gets the final parameters",
            "wrapper=ddp join=on divisor=all-ranks"),
      fixed("join-divided-by-those-that-have", "DDP's join with divide_by_initial_world_size=False",
            "wrapper=ddp join=on divisor=ranks-with-batches")
          .compared_with("reference-of-those-that-have"),
      wrong_fix("barrier-before-leaving",
                "a barrier after the loop, which the other ranks have not reached yet", "",
                expect_left_alone)
          .with_claims(gradients)
          .hanging(),
      reference("reference",
                "one process: the mean over all ranks; one without a batch counts as zeros"),
      reference("reference-of-fewest-batches",
                "one process: a step is left out unless all ranks have a batch"),
      reference("reference-of-repeated-batch",
                "one process: a rank without a batch repeats its first one"),
      reference("reference-of-those-that-have",
                "one process: the mean over the ranks that have a batch"),
  };
}

}  // namespace

Scenario uneven_batches_hang() {
  return {
      .summary =
          "One rank has one batch fewer: it leaves the loop and evaluates, while the others wait "
          "for it in a reduction.",
      .origin = {"PyMarlin, Lightning, pytorch, snowfall",
                 "PyMarlin#80 (2022-01-10), pytorch-lightning#20404, pytorch#38174, snowfall#152",
                 "one rank has 2 batches, the others 3; DDP's join with both of its divisors",
                 "the data loaders that deal out the batches"},
      .variants = variants(),
      .axes = {wrapper_axis(), {"short-rank", {"first", "last"}, "last"}},
      .claims = {kParametersAgree, kParametersEqual, ranks_finish(), collectives_match()},
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
