// With a static graph, DDP only watches the first backward pass and reduces after its end. If that
// pass runs inside `no_sync`, as the first of an accumulation does, nothing has prepared the
// reducer for it: every rank raises. A proposed change lets the first pass that reduces do it. Then
// step 1 is right, but the reducer has counted the hooks of all passes until then, waits for as
// many in one pass from then on, and reduces nothing any more: each rank goes on alone, without an
// error.

#include <ATen/TensorOperators.h>

#include <optional>

#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

bool reduces(Rank& rank, std::int64_t step, std::int64_t index, std::int64_t count) {
  rank.at_branch();
  const bool is_first = step == 1 && index == 0;
  return index + 1 == count || (is_first && rank.has("first", "reduced"));
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.ddp.sink_needs_sync = rank.has("sink", "of-passes-that-reduce");
  options.reference_adds_gradients = true;  // as the ranks do, so that a rank's own are the same
  Training training(rank, model, options);
  const auto loss_of = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs),
                         [&](const at::Tensor& input) { return training.forward(input); });
  };
  const auto gradients = [&](std::int64_t step) {
    const std::int64_t count = options.accumulation;
    for (std::int64_t index = 0; index < count; ++index) {
      std::optional<DistributedDataParallel::NoSync> quiet;
      if (!reduces(rank, step, index, count)) quiet.emplace(*training.ddp());
      (loss_of({rank.rank(), step, index}) / count).backward();
    }
    return true;
  };
  training.run({.loss = loss_of, .gradients = gradients});
}

Expectation expect_alone_from_step_2(const Cell& cell) { return expect_apart(cell, {}, true, 2); }

}  // namespace

Scenario static_graph_with_no_sync() {
  return {
      .summary =
          "A static graph and no_sync around the first backward pass: every rank raises. The "
          "proposed change of the wrapper alone reduces step 1, and no step after it.",
      .origin = {"PyTorch",
                 "issue #143580 (2024-12-19), huggingface/accelerate#3679; the change of pull "
                 "request #166388, and what #187732 says of it",
                 "the order of forward, backward and no_sync; the condition of the sink as in the "
                 "first pull request",
                 "the second pull request's change, which is one of the reducer itself"},
      .variants =
          {buggy("first-pass-in-no-sync",
                 "accumulation from the first step on: the delayed reduction finds a "
                 "reducer that was never armed",
                 "static_graph=on", always(expect_error(ddp_error::kNotArmed))),
           wrong_fix("sink-of-passes-that-reduce",
                     "outputs go through the sink only if their pass reduces: no error, "
                     "and no reduction after step 1",
                     "static_graph=on sink=of-passes-that-reduce", expect_alone_from_step_2),
           fixed("first-pass-reduced",
                 "the very first micro-batch reduces, too, so that the reducer sees one pass",
                 "static_graph=on first=reduced"),
           fixed("without-static-graph", "the graph is not declared static", "static_graph=off"),
           reference("reference", "one process: the mean of all ranks' micro-batches")},
      .axes = {{"accumulation", {"2", "4"}, "2"}, switch_axis("bucket_view"), optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
