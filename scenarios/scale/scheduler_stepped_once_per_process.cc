// A wrapper of the schedule steps it once for each process in every step, because each process
// reads only its share of the data. A schedule that was made for the steps that the trainer takes
// then ends early: all ranks have the right gradients at first, and the wrong learning rate from
// step 2 on.

#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

/// A learning rate that falls to 0 in a straight line.
struct LinearDecay {
  double first = 0;
  std::int64_t length = 1;

  double after(std::int64_t steps) const {
    return steps < length ? first * (1 - static_cast<double>(steps) / static_cast<double>(length))
                          : 0;
  }
};

/// Steps of the schedule in one of the optimizer.
std::int64_t steps_at_once(const Rank& rank) {
  return rank.has("steps", "once-per-process") ? rank.world_size() : 1;
}

LinearDecay decay_of(const Rank& rank, double learning_rate) {
  const std::int64_t trained = rank.cell().steps;
  if (rank.has("length", "times-processes")) return {learning_rate, trained * rank.world_size()};
  return {learning_rate, trained};
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.observes_updates = true;
  Training training(rank, model, options);
  const LinearDecay decay = decay_of(rank, options.learning_rate);
  training.run(
      {.loss =
           [&](const MicroBatch& batch) {
             return squared_error(rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs),
                                  [&](const at::Tensor& input) { return training.forward(input); });
           },
       .update =
           [&](std::int64_t step) {
             rank.at_branch();
             training.optimizer().set_learning_rate(decay.after((step - 1) * steps_at_once(rank)));
             training.optimizer().step();
           }});
}

/// Step 1 has the first learning rate in any case. The rates are
/// those of step 2.
/// Gradients show it a step behind the weights.
Expectation expect_other_schedule(const Cell& cell, double wrong_rate, double right_rate) {
  const std::string why = "weights and gradients are random, and their steps have another length";
  Pin updates{.claim = kUpdatesEqual,
              .steps = {2},
              .last_step = cell.steps,
              .ratio = about(wrong_rate / right_rate),
              .groups = each_alone(cell)};
  if (wrong_rate > 0) updates.cosine = kSameDirection;
  return pinned({.breaks = {kUpdatesEqual, kGradientsEqual, kParametersEqual},
                 .symptom = SymptomKind::agree_but_wrong},
                {updates,
                 {.claim = kParametersEqual,
                  .steps = {2},
                  .last_step = cell.steps,
                  .groups = each_alone(cell),
                  .why = why},
                 {.claim = kGradientsEqual,
                  .steps = {3},
                  .last_step = cell.steps,
                  .groups = each_alone(cell),
                  .why = why}});
}

Expectation expect_early_end(const Cell& cell) {
  const LinearDecay decay{1, cell.steps};
  return expect_other_schedule(cell, decay.after(cell.world_size), decay.after(1));
}

Expectation expect_late_end(const Cell& cell) {
  return expect_other_schedule(cell, LinearDecay{1, cell.steps * cell.world_size}.after(1),
                               LinearDecay{1, cell.steps}.after(1));
}

std::string schedule_precondition(const Cell& cell) {
  return cell.steps >= 3 ? "" : "the learning rate of step 2 shows in the gradients of step 3";
}

}  // namespace

Scenario scheduler_stepped_once_per_process() {
  return {
      .summary =
          "The schedule is stepped once for each process in every step: it ends after a fraction "
          "of the training, and all ranks agree on it.",
      .origin = {"accelerate, diffusers",
                 "huggingface/accelerate#2926 (2024-07-09), #1382, #2773; huggingface/diffusers"
                 "#3954 (2023-07-05), huggingface/transformers#24088",
                 "a linear decay that is made for the trainer's steps; the repairs on either side",
                 "accelerate's wrapper, which does so by design: here the count that it arrives "
                 "at; warm-up, gradient accumulation"},
      .variants = {buggy("stepped-once-per-process",
                         "the schedule takes as many steps at once as there are processes",
                         "steps=once-per-process", expect_early_end),
                   wrong_fix(
                       "both-repaired",
                       "it is stepped once, but made for the processes' steps together: too slow",
                       "steps=once length=times-processes", expect_late_end),
                   fixed("stepped-once", "the schedule is stepped when the optimizer is",
                         "steps=once"),
                   fixed("made-for-all-processes",
                         "it is made for as many steps as all processes take together",
                         "steps=once-per-process length=times-processes"),
                   reference("reference", "one process: the schedule ends with the training")},
      .steps = 6,
      .axes = {optimizer_axis()},
      .claims = claims_before({kUpdatesEqual}, replica_claims()),
      .precondition = schedule_precondition,
      .body = train,
  };
}

}  // namespace lockstep
