// Training stops when the validation loss rises. Each rank looks at its own part of the validation
// set: rank 0's rises first, and it leaves the loop for the final evaluation, while the others wait
// for it in the next step.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

#include "harness/scenario/scenario.h"
#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/micro_batches.h"
#include "harness/train/loop/trainer.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

namespace {

constexpr std::int64_t kStop = 2;  // rank 0's validation loss is higher behind step 2 than behind 1

/// What the model is to learn.
at::Tensor sums(const at::Tensor& input) {
  return input.sum(1, /*keepdim=*/true).expand({-1, 2}) * 4;
}

/// Rank 0's part of the validation set wants the opposite of what is learnt, in inputs that are
/// larger than the others'.
struct Training {
  at::Tensor loss_on(int owner, std::int64_t step) {
    const at::Tensor input = normal_input(rank, {owner, step}, 1000, {12 + owner, 3});
    return (trainer.output(input) - sums(input)).pow(2).mean();
  }

  double validation_loss(int owner) {
    const at::NoGradGuard no_grad;
    const double sign = owner == 0 ? -1 : 1, scale = owner == 0 ? 4 : 1;
    const at::Tensor input = normal_input(rank, {owner, 0}, 500'000, {12 + owner, 3}) * scale;
    return (model.forward(input) - sums(input) * sign).pow(2).mean().item<double>();
  }

  Rank& rank;
  Linear model{3, 2, cpu_generator(rank.seed(0))};
  Trainer trainer{rank, model};
  double best = std::numeric_limits<double>::infinity();  ///< the lowest validation loss
};

/// Whether the validation loss `now` is no better than the best.
bool rises(Training& training, double now) {
  const bool is_higher = now > training.best;
  training.best = std::min(training.best, now);
  return is_higher;
}

double mean_of_ranks(ProcessGroup& group, double mine) {
  at::Tensor mean = at::full({1}, mine, at::kDouble);
  group.all_reduce(mean, ReduceOp::average);
  return mean.item<double>();
}

bool decision_of_rank_0(ProcessGroup& group, bool mine) {
  at::Tensor decision = at::zeros({1}) + (mine ? 1 : 0);
  group.broadcast(decision, 0);
  return decision.item<float>() > 0;
}

/// Where the variants part: whether this rank leaves the loop.
bool is_to_stop(Training& training) {
  Rank& rank = training.rank;
  const double mine = training.validation_loss(rank.rank());
  if (rank.is("decided-on-mean-loss")) return rises(training, mean_of_ranks(rank.group(), mine));
  const bool is_higher = rises(training, mine);
  if (rank.is("decided-by-any")) return largest_of_ranks(rank.group(), is_higher ? 1 : 0) > 0;
  if (rank.is("decided-by-rank-0")) return decision_of_rank_0(rank.group(), is_higher);
  if (rank.is("broadcast-behind-break")) {
    return is_higher || decision_of_rank_0(rank.group(), is_higher);
  }
  if (rank.is("barrier-before-break")) rank.group().barrier();
  rank.is("decided-locally");
  return is_higher;
}

bool is_to_stop_in_reference(Training& training) {
  training.rank.is("reference");
  return rises(training, training.validation_loss(0));
}

void compute_gradients(Training& training, std::int64_t step) {
  Rank& rank = training.rank;
  if (rank.cell().role == Role::reference) {
    rank.mean_of_rank_gradients(training.model,
                                [&](int owner) { return training.loss_on(owner, step); });
  } else {
    training.trainer.backward(training.loss_on(rank.rank(), step));
  }
}

void train(Rank& rank) {
  Training training{rank};
  const bool is_reference = rank.cell().role == Role::reference;
  bool has_stopped = false;
  rank.train([&](std::int64_t step) {
    training.model.zero_grad();
    if (!has_stopped) compute_gradients(training, step);
    training.trainer.finish_step();  // without gradients the model is what it is
    if (has_stopped) return;
    has_stopped = is_reference ? is_to_stop_in_reference(training) : is_to_stop(training);
  });
  if (is_reference) return;
  at::Tensor score = at::full({1}, training.validation_loss(rank.rank()), at::kDouble);
  at::Tensor scores = at::zeros({rank.group().size()}, at::kDouble);
  rank.group().all_gather(scores, score);
}

Expectation expect(const Cell& cell) {
  if (cell.steps <= kStop) return expect_not_applicable("rank 0 stops behind step 2");
  if (!is_faulty(cell)) return {};
  // Rank 0 is behind its last step.
  return expect_ranks_do_not_meet(MismatchFault::operation, 0, odd_ranks(cell, 0));
}

std::vector<Variant> variants() {
  using namespace std::chrono_literals;
  return {
      {.name = "decided-locally",
       .role = Role::buggy,
       .summary = "each rank stops when its own validation loss rises",
       .limit = 2s},
      {"decided-by-any", Role::fixed, "where any rank is to stop, all do"},
      {"decided-by-rank-0", Role::fixed, "rank 0 decides and tells the others"},
      {"decided-on-mean-loss", Role::fixed, "all ranks decide on the mean of their losses"},
      {.name = "barrier-before-break",
       .role = Role::wrong_fix,
       .summary = "ranks wait for each other before each decides for itself",
       .limit = 2s},
      {.name = "broadcast-behind-break",
       .role = Role::wrong_fix,
       .summary = "rank 0 tells the others what it decided, unless it has left already",
       .limit = 2s},
      {.name = "reference",
       .role = Role::reference,
       .summary = "one process: all stop when rank 0's validation loss rises",
       .without = {"wrapper"}},
  };
}

}  // namespace

Scenario early_stop_decided_per_rank() {
  return {
      .id = "early-stop-decided-per-rank",
      .summary =
          "Each rank decides by its own validation loss to stop: one leaves the loop, and "
          "the others wait for it in the next step.",
      .provenance = {.project = "OpenTSLM",
                     .link = "OpenTSLM's trainer, which has guards against it",
                     .kept = "early stopping by the validation loss; a decision that rank 0 "
                             "broadcasts",
                     .left_out = "the trainer around it, patience"},
      .worlds = worlds_from(2, 8),  // among more, rank 0's loss does not make the mean rise
      .steps = 4,
      .axes = {{"wrapper", {"ddp", "by-hand"}, "ddp"}},
      .variants = variants(),
      .claims = collective_claims(),
      .tables = {},
      .expect = expect,
      .body = train,
  };
}

}  // namespace lockstep
