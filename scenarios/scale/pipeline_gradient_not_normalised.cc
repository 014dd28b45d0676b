// A pipeline's schedule runs backward itself. A trainer that divides the loss by its tokens after
// the schedule divides what it logs: gradients are those of the sum. The schedule's own option to
// scale gradients divides all that has accumulated, each time it runs: earlier runs of a step count
// less than later ones. A pipeline's stages have no copies, so ranks cannot disagree.

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <array>

#include "harness/train/loop/training.h"
#include "harness/train/sharded/pipeline.h"

namespace lockstep {

namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kMicroBatches = 2;
constexpr std::array<std::int64_t, kMicroBatches> kTokens{5, 3};
constexpr std::int64_t kTokensOfRun = 5 + 3;

/// A layer for each stage.
struct Stages : Module {
  Stages(int count, const at::Generator& generator) {
    for (int stage = 0; stage < count; ++stage) {
      layers.push_back(register_module(fmt::format("layer{}", stage),
                                       std::make_shared<Linear>(kWidth, kWidth, generator)));
    }
  }

  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor output = input;
    for (const auto& layer : layers) output = (*layer)(output).tanh();
    return output;
  }

  std::vector<std::shared_ptr<Linear>> layers;
};

/// The schedule runs `accumulation` times in a step.
struct Batch {
  std::int64_t step = 1;
  std::int64_t run = 0;
  std::int64_t index = 0;  ///< of the micro-batch

  std::int64_t tokens() const { return kTokens.at(static_cast<std::size_t>(index)); }
  at::Tensor draw(Rank& rank, std::uint64_t base) const {
    const MicroBatch of_all{/*owner=*/0, step, run * kMicroBatches + index};
    return normal_input(rank, of_all, base, {tokens(), kWidth});
  }
};

at::Tensor summed_error(Rank& rank, const Batch& batch, const at::Tensor& output) {
  return (output - batch.draw(rank, 2'000'000)).pow(2).sum();
}

std::int64_t runs_of(const Rank& rank) { return rank.number("accumulation"); }
std::int64_t tokens_of_step(const Rank& rank) { return kTokensOfRun * runs_of(rank); }

/// One process: the mean over all tokens of the step.
void mean_over_step(Rank& rank, Stages& model, std::int64_t step) {
  for (Batch batch{step}; batch.run < runs_of(rank); ++batch.run) {
    for (batch.index = 0; batch.index < kMicroBatches; ++batch.index) {
      const at::Tensor output = model(batch.draw(rank, 1'000'000));
      (summed_error(rank, batch, output) / tokens_of_step(rank)).backward();
    }
  }
}

/// What the schedule runs backward from.
at::Tensor loss_of(Rank& rank, const Batch& batch, const at::Tensor& output) {
  at::Tensor sum = summed_error(rank, batch, output);
  const std::int64_t tokens = tokens_of_step(rank);
  if (rank.has("loss", "sum")) return sum;
  if (rank.has("loss", "mean-of-micro-batch")) {
    return sum / (batch.tokens() * kMicroBatches * runs_of(rank));
  }
  // The schedule's option is for losses that are means over a micro-batch.
  return rank.has("scales", "each-run") ? sum / tokens * kMicroBatches : sum / tokens;
}

void divide_gradients(const ShardedModel& sharded, std::int64_t divisor) {
  for (const at::Tensor& parameter : sharded.parameters()) parameter.mutable_grad() /= divisor;
}

void scale_after_step(const Rank& rank, const Pipeline& pipeline) {
  const bool is_last_stages = rank.has("scales", "last-stage") && pipeline.is_last();
  if (is_last_stages || rank.has("scales", "after-all-runs")) {
    divide_gradients(pipeline, tokens_of_step(rank));
  }
}

void train(Rank& rank) {
  Stages model(rank.world_size(), cpu_generator(rank.seed(0)));
  model.to(rank.device());
  TrainingOptions options;
  options.learning_rate = 0.01;  // a gradient of the sum is many times too large
  if (rank.is_reference()) {
    return Training(rank, model, options).run({.reference = [&](std::int64_t step) {
      mean_over_step(rank, model, step);
    }});
  }
  Module& own = *model.layers.at(static_cast<std::size_t>(rank.rank()));
  Pipeline pipeline(model, {&own}, {}, rank.group());
  Training training(rank, model, options, &pipeline);
  name_parameters(model);
  Batch batch;
  const StageHooks hooks{.input =
                             [&](std::int64_t index) {
                               batch.index = index;
                               return batch.draw(rank, 1'000'000);
                             },
                         .forward = [&](const at::Tensor& input) { return own(input).tanh(); },
                         .loss =
                             [&](const at::Tensor& output, std::int64_t index) {
                               batch.index = index;
                               return loss_of(rank, batch, output);
                             },
                         .shape =
                             [](std::int64_t index) {
                               return std::vector{Batch{.index = index}.tokens(), kWidth};
                             },
                         .options = at::TensorOptions(rank.device()).dtype(at::kFloat)};
  training.run({.gradients =
                    [&](std::int64_t step) {
                      rank.at_branch();
                      for (batch = {step}; batch.run < runs_of(rank); ++batch.run) {
                        pipeline.run(hooks, kMicroBatches);
                        if (rank.has("scales", "each-run")) {
                          divide_gradients(pipeline, kMicroBatches);
                        }
                      }
                      return true;
                    },
                .reduce = [&](std::int64_t) { scale_after_step(rank, pipeline); }});
}

/// As many times too large as a step has tokens.
Expectation expect_sums(const Cell& cell, std::vector<std::string> layers = {}) {
  return expect_multiple_of(cell, std::move(layers),
                            static_cast<double>(kTokensOfRun * number_on(cell, "accumulation")));
}

Expectation expect_sums_of_all(const Cell& cell) { return expect_sums(cell); }

/// In step 1 the last stage is right.
Expectation expect_sums_below(const Cell& cell) {
  std::vector<std::string> layers;
  for (int stage = 0; stage + 1 < cell.world_size; ++stage) {
    layers.push_back(fmt::format("layer{}.*", stage));
  }
  Expectation expectation = expect_sums(cell, std::move(layers));
  expectation.pins.front().groups.clear();  // of all steps
  return expectation;
}

Expectation expect_other_weights(const Cell& cell, const char* why) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = why;
  return expectation;
}

/// Each run halves what came before it; a single one is right.
Expectation expect_earlier_runs_fade(const Cell& cell) {
  if (number_on(cell, "accumulation") == 1) return expect_hidden();
  return expect_other_weights(cell, "the gradients of a run are random");
}

Expectation expect_micro_batches_alike(const Cell& cell) {
  return expect_other_weights(cell, "how far a micro-batch's mean is from that of all is random");
}

}  // namespace

Scenario pipeline_gradient_not_normalised() {
  return {
      .summary =
          "A pipeline's schedule runs backward from the sum of the tokens' losses, and the trainer "
          "divides afterwards: only what it logs.",
      .origin = {"torchtitan",
                 "pytorch/torchtitan#2972 (2026-04-15), #4194 (2026-08-18); #1733 (2025-09-22), "
                 "pull request #1732",
                 "a schedule that calls the loss; its repair, the tokens as an argument of the "
                 "loss; scale_grads with several runs in a step, and its repair, one division",
                 "the interleaved schedules, FSDP of each stage, and its divisions"},
      .variants =
          {buggy("loss-divided-after-schedule",
                 "the schedule's loss is the sum, which is divided when it returns",
                 "loss=sum scales=none", expect_sums_of_all),
           buggy("scaled-in-each-run",
                 "the schedule divides the step's gradients so far by its micro-batches, per run",
                 "loss=mean-of-step scales=each-run", expect_earlier_runs_fade),
           wrong_fix("mean-of-micro-batches",
                     "each micro-batch's loss is the mean over its own tokens",
                     "loss=mean-of-micro-batch scales=none", expect_micro_batches_alike),
           wrong_fix("last-stage-scaled",
                     "the stage that knows the tokens divides its own gradients afterwards",
                     "loss=sum scales=last-stage", expect_sums_below),
           fixed("loss-divided-in-schedule",
                 "the loss is divided by the step's tokens before the schedule's backward",
                 "loss=mean-of-step scales=none"),
           fixed("scaled-after-all-runs",
                 "all stages divide their gradients once, by the tokens of the step",
                 "loss=sum scales=after-all-runs"),
           reference("reference", "one process: the mean over all tokens of the step")},
      .axes = {{"accumulation", {"1", "2"}, "2"}},
      .claims = sharded_claims(),
      .body = train,
  };
}

}  // namespace lockstep
