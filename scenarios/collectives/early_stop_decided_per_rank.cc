// Training stops when the validation loss rises. Each rank validates on its own part of the data.
// Rank 0's loss rises first, so rank 0 starts the final evaluation while the others wait for it in
// the next step.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"

namespace lockstep {

namespace {

constexpr std::int64_t kStop = 2;  // rank 0's validation loss rises from step 1 to step 2

/// The targets of the training.
at::Tensor sums(const at::Tensor& input) {
  return input.sum(1, /*keepdim=*/true).expand({-1, 2}) * 4;
}

/// Rank 0 validates on the negated targets, with inputs larger than the others'.
double validation_loss(Rank& rank, Module& model, int owner) {
  const at::NoGradGuard no_grad;
  const double sign = owner == 0 ? -1 : 1, scale = owner == 0 ? 4 : 1;
  const at::Tensor input = normal_input(rank, {owner, 0}, 500'000, {12 + owner, 3}) * scale;
  return (model.forward(input) - sums(input) * sign).pow(2).mean().item<double>();
}

/// Compares a validation loss with the lowest one so far.
struct Best {
  bool rises(double now) {
    const bool is_higher = now > best;
    best = std::min(best, now);
    return is_higher;
  }
  double best = std::numeric_limits<double>::infinity();
};

/// Whether this rank leaves the loop.
bool is_to_stop(Rank& rank, Best& best, double mine) {
  rank.at_branch();
  if (rank.is_reference()) return best.rises(mine);
  ProcessGroup& group = rank.group();
  if (rank.is("decided-on-mean-loss")) return best.rises(mean_of_ranks(group, mine));
  const bool is_higher = best.rises(mine);
  if (rank.is("decided-by-any")) return largest_of_ranks(group, is_higher ? 1 : 0) > 0;
  if (rank.is("decided-by-rank-0")) return decision_of_rank_0(group, is_higher);
  if (rank.is("broadcast-behind-break")) return is_higher || decision_of_rank_0(group, is_higher);
  if (rank.is("barrier-before-break")) group.barrier();
  return is_higher && (rank.is("decided-locally") || rank.is("barrier-before-break"));
}

void train(Rank& rank) {
  Linear model(3, 2, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  Best best;
  bool has_stopped = false;
  const auto loss_on = [&](int owner, std::int64_t step) {
    const at::Tensor input = normal_input(rank, {owner, step}, 1000, {12 + owner, 3});
    return (training.forward(input) - sums(input)).pow(2).mean();
  };
  // Without gradients the optimizer does not change the model.
  training.run({
      .gradients =
          [&](std::int64_t step) {
            if (!has_stopped) training.backward(loss_on(rank.rank(), step));
            return true;
          },
      .reference =
          [&](std::int64_t step) {
            if (has_stopped) return;
            rank.mean_of_rank_gradients(model, [&](int owner) { return loss_on(owner, step); });
          },
      .after =
          [&](std::int64_t) {
            if (has_stopped) return;
            has_stopped = is_to_stop(rank, best, validation_loss(rank, model, rank.rank()));
          },
  });
  if (rank.is_reference()) return;
  at::Tensor score = at::full({1}, validation_loss(rank, model, rank.rank()),
                              at::device(rank.device()).dtype(at::kDouble));
  at::Tensor scores = at::zeros({rank.group().size()}, score.options());
  rank.group().all_gather(scores, score);
}

/// Rank 0 has finished its last step.
Expectation expect_left_alone(const Cell& cell) {
  return expect_ranks_do_not_meet(MismatchFault::operation, 0, odd_ranks(cell, 0));
}

std::string precondition(const Cell& cell) {
  return cell.steps > kStop ? "" : "rank 0 stops behind step 2";
}

}  // namespace

Scenario early_stop_decided_per_rank() {
  return {
      .summary =
          "Each rank decides by its own validation loss whether to stop: one leaves the loop, and "
          "the others wait for it in the next step.",
      .origin = {"OpenTSLM", "OpenTSLM's trainer, which has guards against it",
                 "early stopping by the validation loss; a decision that rank 0 broadcasts",
                 "the trainer around it, patience"},
      .variants = {buggy("decided-locally", "each rank stops when its own validation loss rises",
                         "", expect_left_alone)
                       .hanging(),
                   fixed("decided-by-any", "all ranks stop if any rank decides to"),
                   fixed("decided-by-rank-0", "rank 0 decides and broadcasts its decision"),
                   fixed("decided-on-mean-loss", "all ranks decide on the mean of their losses"),
                   wrong_fix("barrier-before-break",
                             "a barrier before each rank decides for itself", "", expect_left_alone)
                       .hanging(),
                   wrong_fix("broadcast-behind-break",
                             "rank 0 broadcasts its decision only if it has not left the loop", "",
                             expect_left_alone)
                       .hanging(),
                   reference("reference",
                             "one process: all stop when rank 0's validation loss rises")},
      .worlds = worlds_from(2, 8),  // with more ranks, rank 0's loss does not raise the mean
      .steps = 4,
      .axes = {wrapper_axis()},
      .claims = collective_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
