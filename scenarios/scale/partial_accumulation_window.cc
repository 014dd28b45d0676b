// An epoch ends before its last window of micro-batches is full. A trainer that still divides by
// the configured number of micro-batches takes a step that is too short: all ranks agree, and only
// the last step of each epoch shows it. The same condition around `no_sync` is worse: no
// micro-batch of that window is the one that reduces.

#include <ATen/TensorOperators.h>

#include <optional>

#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;
constexpr std::int64_t kWindow = 4;  // micro-batches of a step, as configured

/// An epoch has two windows, and the second one is its last.
bool ends_epoch(std::int64_t step) { return step % 2 == 0; }

std::int64_t micro_batches_of(const Rank& rank, std::int64_t step) {
  return ends_epoch(step) ? rank.number("last_window") : kWindow;
}

/// What the loss of micro-batch `index` of `count`, which counts from 0, is divided by.
std::int64_t divisor_of(const Rank& rank, std::int64_t index, std::int64_t count) {
  if (rank.has("divided_by", "configured")) return kWindow;
  if (rank.has("divided_by", "so-far")) return index + 1;
  return count;
}

bool reduces(const Rank& rank, std::int64_t index, std::int64_t count) {
  if (rank.has("reduces", "when-full")) return (index + 1) % kWindow == 0;
  return index + 1 == count;
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  Training training(rank, model, training_options(rank));
  const auto loss_of = [&](const MicroBatch& batch) {
    return squared_error(rank, batch, regression_of_rank(batch.owner, kInputs, kOutputs),
                         [&](const at::Tensor& input) { return training.forward(input); });
  };
  StepHooks hooks;
  hooks.gradients = [&](std::int64_t step) {
    const std::int64_t count = micro_batches_of(rank, step);
    for (std::int64_t index = 0; index < count; ++index) {
      rank.at_branch();
      std::optional<DistributedDataParallel::NoSync> quiet;
      if (!reduces(rank, index, count)) quiet.emplace(*training.ddp());
      (loss_of({rank.rank(), step, index}) / divisor_of(rank, index, count)).backward();
    }
    return true;
  };
  hooks.reference = [&](std::int64_t step) {
    const std::int64_t count = micro_batches_of(rank, step);
    // As the ranks do, one backward for each, so that a rank's own gradients are the same.
    rank.mean_of_rank_gradients(model, [&](int owner) {
      for (std::int64_t index = 0; index + 1 < count; ++index) {
        (loss_of({owner, step, index}) / count).backward();
      }
      return loss_of({owner, step, count - 1}) / count;
    });
  };
  hooks.reduce = [&](std::int64_t step) {
    if (!rank.has("then", "rescaled")) return;
    const auto factor =
        static_cast<double>(kWindow) / static_cast<double>(micro_batches_of(rank, step));
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad() *= factor;
  };
  training.run(hooks);
}

/// The first epoch's last step is the first wrong one.
Expectation expect_short_step(const Cell& cell) {
  const std::int64_t count = number_on(cell, "last_window");
  if (count == kWindow) return expect_hidden();
  Expectation expectation =
      expect_multiple(cell, static_cast<double>(count) / static_cast<double>(kWindow));
  expectation.pins.front().steps = {2};
  return expectation;
}

Expectation expect_early_ones_heavier(const Cell& cell) {
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = "micro-batches are random, and each counts less than the last";
  return expectation;
}

/// Full windows reduce again, so gradients agree there, at weights that do not.
Expectation expect_last_window_unreduced(const Cell& cell) {
  if (number_on(cell, "last_window") == kWindow) return expect_hidden();
  return pinned(expect_ranks_differ(), {{.claim = kGradientsAgree,
                                         .steps = {2},
                                         .last_step = cell.steps / 2 * 2,
                                         .groups = each_alone(cell)},
                                        {.claim = kGradientsEqual,
                                         .steps = {2},
                                         .last_step = cell.steps,
                                         .attribution = GradientAttribution::own,
                                         .groups = each_alone(cell)}});
}

std::string window_precondition(const Cell& cell) {
  return cell.steps >= 2 ? "" : "the last window of an epoch is step 2";
}

}  // namespace

Scenario partial_accumulation_window() {
  return {
      .summary =
          "The last window of an epoch has fewer micro-batches, and is divided by the configured "
          "number: its step is too short, on all ranks alike.",
      .origin =
          {"transformers, ms-swift, accelerate, nanoGPT",
           "huggingface/transformers#38872 (2025-06-17), #39659; modelscope/ms-swift#10084 "
           "(2026-09-09), hiyouga/LlamaFactory#10705; huggingface/accelerate#1624 (2023-06-21); "
           "karpathy/nanoGPT#605",
           "epochs of a full and a shorter window; the repair by the actual number; no_sync that "
           "ends with full windows alone; the count so far, which nanoGPT's issue proposes",
           "counts of tokens: accumulation-mean-of-means"},
      .variants =
          {buggy("divided-by-configured", "every window is divided by the configured number",
                 "divided_by=configured", expect_short_step),
           buggy(
               "reduced-when-full",
               "only the configured number of micro-batches ends no_sync: a step of own gradients",
               "divided_by=actual reduces=when-full", expect_last_window_unreduced),
           wrong_fix("divided-by-so-far",
                     "each loss is divided by the number so far: the first counts most",
                     "divided_by=so-far", expect_early_ones_heavier),
           fixed("divided-by-actual", "each window is divided by the number that it has",
                 "divided_by=actual"),
           fixed(
               "rescaled",
               "divided by the configured number, then gradients are multiplied by what is missing",
               "divided_by=configured then=rescaled"),
           reference("reference", "one process: the mean over the ranks' micro-batches")},
      .steps = 4,
      .axes = {{"last_window", {"1", "2", "3", "4"}, "2"}, switch_axis("bucket_view", false)},
      .claims = replica_claims(),
      .precondition = window_precondition,
      .body = train,
  };
}

}  // namespace lockstep
