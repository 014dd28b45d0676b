// A trainer skips steps whose loss is not finite, or far off. Only rank 0 sees such a loss. From
// then on its reductions are one step ahead of the others'. In the last step the others wait for
// rank 0, which has gone on to save the checkpoint.

#include <ATen/TensorOperators.h>

#include <limits>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kBadStep = 2;
constexpr double kMostLoss = 100;  // ordinary losses are around 1, a spike's above 10000

/// Rank 0's targets of step 2 are damaged.
at::Tensor target_of(Rank& rank, const MicroBatch& batch, std::int64_t rows) {
  const at::Tensor target = normal_input(rank, batch, 500'000, {rows, 2});
  if (batch.owner != 0 || batch.step != kBadStep) return target;
  if (is_set(rank.cell(), "loss", "spike")) return target * 100 + 1000;
  return target * std::numeric_limits<double>::infinity();
}

bool is_bad(double loss) { return !(loss < kMostLoss); }
bool is_bad(const at::Tensor& loss) { return is_bad(loss.item<double>()); }

/// Whether the rank skips the step before its backward.
bool skips(Rank& rank, const at::Tensor& loss) {
  rank.at_branch();
  if (rank.is("skipped-locally")) return is_bad(loss);
  if (rank.is("decided-by-all")) return largest_of_ranks(rank.group(), is_bad(loss) ? 1 : 0) > 0;
  return rank.is("decided-on-mean-loss") &&
         is_bad(mean_of_ranks(rank.group(), loss.item<double>()));
}

void train(Rank& rank) {
  TwoLayers model(3, 5, 2, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  bool updates = true;
  const auto loss_on = [&](int owner, std::int64_t step) {
    const MicroBatch batch{owner, step};
    const std::int64_t rows = 2 + owner;
    const at::Tensor output = training.forward(normal_input(rank, batch, 1000, {rows, 3}));
    return (output - target_of(rank, batch, rows)).pow(2).mean();
  };
  training.run({
      .gradients =
          [&](std::int64_t step) {
            const at::Tensor loss = loss_on(rank.rank(), step);
            const bool is_skipped = skips(rank, loss);
            updates = !is_skipped && !(rank.is("optimizer-skipped-locally") && is_bad(loss));
            const bool is_nothing = rank.is("zeros-from-that-rank") && is_bad(loss);
            if (!is_skipped) training.backward(is_nothing ? loss_of_nothing(model) : loss);
            return true;
          },
      .reference =
          [&](std::int64_t step) {
            updates = true;
            for (int owner = 0; owner < rank.world_size(); ++owner) {
              if (is_bad(loss_on(owner, step))) updates = false;
            }
            if (!updates) return;
            rank.mean_of_rank_gradients(model, [&](int owner) { return loss_on(owner, step); });
          },
      .update =
          [&](std::int64_t) {
            if (updates) training.optimizer().step();
          },
  });
  // Rank 0 saves the checkpoint while the others wait.
  if (!rank.is_reference()) rank.group().barrier();
}

/// The reference skips step 2 and has no gradients there, so any gradient of a rank is wrong.
Expectation expect_trained_step(Expectation expectation, const Cell& cell) {
  return pinned(std::move(expectation), {{.claim = kGradientsEqual,
                                          .steps = {kBadStep},
                                          .last_step = cell.steps,
                                          .groups = each_alone(cell),
                                          .why = "there is nothing that it is a multiple of"}});
}

/// Rank 0 is a step ahead of the others. After its last step, they wait for it.
Expectation expect_step_ahead(const Cell& cell) {
  Expectation expectation =
      expect_ranks_do_not_meet(MismatchFault::operation, 0, odd_ranks(cell, 0));
  expectation.breaks.insert(expectation.breaks.end(),
                            {kGradientsAgree, kParametersAgree, kGradientsEqual, kParametersEqual});
  const std::string why = "gradients of two steps are in the mean";
  expectation.pins.push_back({.claim = kGradientsAgree, .steps = {kBadStep}, .why = why});
  expectation = expect_trained_step(std::move(expectation), cell);
  expectation.pins.back().last_step = cell.steps - 1;  // the last that all ranks have
  return expectation;
}

Expectation expect_zeros(const Cell& cell) {
  return expect_trained_step(expect_agree_but_wrong(), cell);
}

Expectation expect_one_rank_behind(const Cell& cell) {
  return expect_trained_step({.breaks = {kParametersAgree, kGradientsEqual, kParametersEqual},
                              .symptom = SymptomKind::ranks_differ},
                             cell);
}

std::string precondition(const Cell& cell) {
  return cell.steps > kBadStep ? ""
                               : "the bad loss is that of step 2, and its damage is seen behind it";
}

}  // namespace

Scenario step_skipped_on_one_rank() {
  return {
      .summary =
          "One rank skips a step because its loss is bad: its next gradients are averaged with the "
          "others' of that step, and at the end they wait for it.",
      .origin = {"Neuron_SP, llm-internal-medicine",
                 "Neuron_SP#154 and #197, llm-internal-medicine#45",
                 "a local condition in front of a collective",
                 "the trainers around it, loss scaling"},
      .variants =
          {buggy("skipped-locally",
                 "the rank with a bad loss skips to the next step before backward", "",
                 expect_step_ahead)
               .hanging(),
           fixed("decided-by-all", "if any rank's loss is bad, all ranks skip the step"),
           fixed("decided-on-mean-loss", "all ranks decide on the mean of their losses"),
           wrong_fix("optimizer-skipped-locally",
                     "all ranks reduce, but the rank with the bad loss skips its optimizer step",
                     "", expect_one_rank_behind),
           wrong_fix("zeros-from-that-rank",
                     "that rank contributes zeros: nothing hangs, but the mean is too small", "",
                     expect_zeros),
           reference("reference", "one process: a step is left out if any rank's loss is bad")},
      .steps = 4,
      .axes = {wrapper_axis(), {"loss", {"spike", "not-finite"}, "not-finite"}},
      .claims = collective_claims(),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
