// A trainer leaves out steps whose loss is not finite, or far off. So that all ranks do the same,
// rank 0 decides and broadcasts. But losses are the ranks' own, and the bad one is another rank's:
// nobody leaves out the step, and the reduction brings the bad gradients to all.

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <limits>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kPoisonedStep = 2;
constexpr double kGreatestLoss = 100;  // ordinary losses are around 1, a spike's above 10000

/// The last rank's targets of step 2 are damaged.
at::Tensor damaged_target(Rank& rank, const MicroBatch& batch, std::int64_t rows) {
  at::Tensor target = normal_input(rank, batch, 500'000, {rows, 2});
  const bool is_damaged = batch.owner == rank.world_size() - 1 && batch.step == kPoisonedStep;
  if (!is_damaged) return target;
  if (is_set(rank.cell(), "loss", "spike")) return target * 100 + 1000;
  return target * std::numeric_limits<double>::quiet_NaN();
}

/// NaN is above no limit.
bool is_above_limit(double loss) { return loss > kGreatestLoss; }
bool is_not_below_limit(double loss) { return !(loss < kGreatestLoss); }

/// Whether all ranks leave out the step, before their backward.
bool leaves_out(Rank& rank, const at::Tensor& loss) {
  const double own = loss.item<double>();
  const bool is_bad = is_not_below_limit(own);
  rank.at_branch();
  if (rank.is("decided-by-rank-0")) return decision_of_rank_0(rank.group(), is_bad);
  if (rank.is("decided-unanimously")) return least_of_ranks(rank.group(), is_bad ? 1 : 0) > 0;
  if (rank.is("decided-by-any")) return largest_of_ranks(rank.group(), is_bad ? 1 : 0) > 0;
  if (rank.is("mean-above-limit")) return is_above_limit(mean_of_ranks(rank.group(), own));
  return rank.is("mean-not-below-limit") && is_not_below_limit(mean_of_ranks(rank.group(), own));
}

/// After the reduction, which made the gradients of all ranks alike.
bool has_bad_gradients(const Module& model) {
  const std::vector<at::Tensor> parameters = model.parameters();
  return std::any_of(parameters.begin(), parameters.end(), [](const at::Tensor& parameter) {
    return is_not_below_limit(parameter.grad().abs().sum().item<double>());
  });
}

void train(Rank& rank) {
  TwoLayers model(3, 5, 2, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  bool updates = true;
  const auto loss_on = [&](int owner, std::int64_t step) {
    const MicroBatch batch{owner, step};
    const std::int64_t rows = 2 + owner;
    const at::Tensor output = training.forward(normal_input(rank, batch, 1000, {rows, 3}));
    return (output - damaged_target(rank, batch, rows)).pow(2).mean();
  };
  training.run({
      .gradients =
          [&](std::int64_t step) {
            const at::Tensor loss = loss_on(rank.rank(), step);
            updates = !leaves_out(rank, loss);
            if (!updates) return true;
            const bool is_zeroed =
                rank.is("loss-zeroed") && is_not_below_limit(loss.item<double>());
            training.backward(is_zeroed ? loss * 0 : loss);
            updates = !rank.is("decided-on-gradients") || !has_bad_gradients(model);
            if (!updates) model.zero_grad();
            return true;
          },
      .reference =
          [&](std::int64_t step) {
            updates = step != kPoisonedStep;
            if (!updates) return;
            rank.mean_of_rank_gradients(model, [&](int owner) { return loss_on(owner, step); });
          },
      .update =
          [&](std::int64_t) {
            if (updates) training.optimizer().step();
          },
  });
}

Claim parameters_stay_finite() { return stay_finite(Kind::parameter, Phase::post_step); }

/// All ranks train on the bad loss. The reference leaves the step out and has no gradients there,
/// so any gradient is wrong.
Expectation expect_trained(const Cell& cell) {
  const Pin gradients{.claim = kGradientsEqual,
                      .steps = {kPoisonedStep},
                      .last_step = cell.steps,
                      .groups = each_alone(cell),
                      .why = "there is nothing that it is a multiple of"};
  if (is_set(cell, "loss", "spike")) return pinned(expect_agree_but_wrong(), {gradients});
  Expectation expectation = expect_agree_but_wrong();
  expectation.breaks.push_back(parameters_stay_finite());
  expectation.symptom = SymptomKind::became_not_finite;
  return pinned(std::move(expectation), {gradients,
                                         {.claim = parameters_stay_finite(),
                                          .steps = {kPoisonedStep},
                                          .last_step = kPoisonedStep,
                                          .why = "all parameters"}});
}

/// The mean of the ranks' losses tells a spike, but no comparison with NaN is true.
Expectation expect_missed_if_not_finite(const Cell& cell) {
  return is_set(cell, "loss", "spike") ? expect_hidden() : expect_trained(cell);
}

std::string precondition(const Cell& cell) {
  return cell.steps > kPoisonedStep
             ? ""
             : "the bad loss is that of step 2, and its damage is seen behind it";
}

}  // namespace

Scenario skip_decided_by_one_rank() {
  return {
      .summary =
          "Rank 0 decides for all whether a step is left out, by its own loss: the bad loss is "
          "another rank's, and the reduction spreads it.",
      .origin = {"WeatherGenerator, BMTrain",
                 "ecmwf/WeatherGenerator#2724 (2026-08-04), pull request #2718; "
                 "OpenBMB/BMTrain#108",
                 "a decision on rank 0's loss that is broadcast; its repair, the maximum over "
                 "ranks; the mean of the losses as the sign of a NaN",
                 "the history of losses that a spike is compared with: here a fixed limit; the "
                 "gradient scaler that hides NaN, but no spike"},
      .variants =
          {buggy("decided-by-rank-0", "rank 0 looks at its own loss and broadcasts its decision",
                 "", expect_trained),
           wrong_fix("decided-unanimously", "a step is left out if the losses of all ranks are bad",
                     "", expect_trained),
           wrong_fix("mean-above-limit",
                     "it is left out if the mean loss is above a limit, which NaN never is", "",
                     expect_missed_if_not_finite),
           wrong_fix("loss-zeroed",
                     "a rank multiplies its bad loss by 0: NaN stays, and a spike counts as 0", "",
                     expect_trained),
           fixed("decided-by-any", "the repair: a step is left out if any rank's loss is bad"),
           fixed("mean-not-below-limit", "it is left out unless the mean loss is below the limit"),
           fixed("decided-on-gradients",
                 "ranks look at the reduced gradients, which are the same on all"),
           reference("reference", "one process: the step with a bad loss is left out")},
      .steps = 4,
      .axes = {wrapper_axis(), {"loss", {"spike", "not-finite"}, "not-finite"}},
      .claims = claims_before({parameters_stay_finite()}, collective_claims()),
      .precondition = precondition,
      .body = train,
  };
}

}  // namespace lockstep
