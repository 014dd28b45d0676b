// While gradients accumulate, DDP's `no_sync` keeps all micro-batches but the last from reducing. A
// condition that is off by one lets another micro-batch reduce: what came after it stays the rank's
// own. Each rank steps with a gradient of its own, no error is raised, and the first micro-batch is
// even right.

#include <ATen/TensorOperators.h>

#include <optional>

#include "harness/train/ddp/gradient_reduction.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

/// Whether DDP reduces after micro-batch `index` of `count`, which counts from 0.
bool reduces(const Rank& rank, std::int64_t index, std::int64_t count) {
  if (rank.has("reduces", "first")) return index % count == 0;
  if (rank.has("reduces", "last-but-one")) return (index + 2) % count == 0;
  if (rank.has("reduces", "never")) return index == count;
  if (rank.has("reduces", "last")) return (index + 1) % count == 0;
  return true;
}

void train_micro_batches(Rank& rank, Training& training, std::int64_t step) {
  const std::int64_t count = training.options().accumulation;
  for (std::int64_t index = 0; index < count; ++index) {
    rank.at_branch();
    std::optional<DistributedDataParallel::NoSync> quiet;
    if (!reduces(rank, index, count)) quiet.emplace(*training.ddp());
    const at::Tensor loss = squared_error(
        rank, {rank.rank(), step, index}, regression_of_rank(rank.rank(), kInputs, kOutputs),
        [&](const at::Tensor& input) { return training.forward(input); });
    (loss / count).backward();
  }
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  TrainingOptions options = training_options(rank);
  options.reference_adds_gradients = true;  // as the ranks do, so that a rank's own are the same
  Training training(rank, model, options);
  training.run({.loss =
                    [&](const MicroBatch& batch) {
                      return squared_error(rank, batch,
                                           regression_of_rank(batch.owner, kInputs, kOutputs),
                                           [&](const at::Tensor& input) { return model(input); });
                    },
                .gradients =
                    [&](std::int64_t step) {
                      train_micro_batches(rank, training, step);
                      return true;
                    },
                .reduce =
                    [&](std::int64_t) {
                      if (rank.has("then", "averaged")) {
                        average_each(rank.group(), model.parameters());
                      }
                    }});
}

/// The part that was reduced is in all ranks' gradients, the rest is each rank's own.
Expectation expect_rest_unreduced(const Cell& cell) {
  if (number_on(cell, "accumulation") == 1) return expect_hidden();
  Expectation expectation = expect_apart(cell, {});
  for (Pin& pin : expectation.pins) pin.why = "what came after the reduction is random";
  return expectation;
}

Expectation expect_no_sync_for_all(const Cell& cell) { return expect_never_reduced(cell); }

}  // namespace

Scenario no_sync_off_by_one() {
  return {
      .summary =
          "The condition around no_sync is off by one: the first micro-batch is reduced instead of "
          "the last, and each rank steps with a gradient of its own.",
      .origin = {"FunASR", "modelscope/FunASR#3472 (2026-08-05)",
                 "batch_idx % accum_grad as the condition, and (batch_idx + 1) % accum_grad as its "
                 "repair",
                 "the trainer around it, mixed precision; the step itself comes after the last "
                 "micro-batch in all variants"},
      .variants =
          {buggy("first-reduced", "index % count: DDP reduces after the first micro-batch",
                 "reduces=first", expect_rest_unreduced),
           wrong_fix("last-but-one-reduced",
                     "(index + 1) % count, with an index that already counts from 1",
                     "reduces=last-but-one", expect_rest_unreduced),
           wrong_fix("never-reduced", "index == count: no micro-batch has that index",
                     "reduces=never", expect_no_sync_for_all),
           fixed("last-reduced", "(index + 1) % count: all that was accumulated is reduced",
                 "reduces=last"),
           fixed("all-reduced", "without no_sync: each reduction includes what came before",
                 "reduces=all"),
           fixed("averaged-at-the-end",
                 "whatever was reduced before, gradients are averaged after the last micro-batch",
                 "reduces=first then=averaged"),
           reference("reference", "one process: the mean of all ranks' micro-batches")},
      .axes = {{"accumulation", {"1", "2", "4"}, "2"},
               switch_axis("bucket_view"),
               optimizer_axis()},
      .claims = replica_claims(),
      .precondition = no_single_step_of_adamw,
      .body = train,
  };
}

}  // namespace lockstep
