// Gradients accumulate over micro-batches until the optimizer steps. An engine that takes every
// backward for the last one of its step drops what it has accumulated whenever the next begins, as
// does a loop that clears gradients per micro-batch. The step is made with the last micro-batch
// alone, divided by the number of all: ranks agree, and the logged losses are right.

#include <ATen/TensorOperators.h>

#include <optional>

#include "harness/train/loop/training.h"
#include "harness/train/nn/two_layers.h"
#include "harness/train/sharded/zero.h"

namespace lockstep {

namespace {

constexpr std::int64_t kInputs = 3;
constexpr std::int64_t kOutputs = 2;

bool clears_before(const Rank& rank, std::int64_t index) {
  return index > 0 && rank.has("cleared", "every-backward");
}

void train(Rank& rank) {
  TwoLayers model(kInputs, 5, kOutputs, cpu_generator(rank.seed(0)));
  model.to(rank.device());
  std::optional<Zero> zero;
  if (rank.has("engine", "zero-2")) zero.emplace(model, rank.group(), ZeroOptions{.stage = 2});
  Training training(rank, model, training_options(rank), zero ? &*zero : nullptr);
  training.run({
      .loss =
          [&](const MicroBatch& batch) {
            rank.at_branch();
            if (clears_before(rank, batch.index)) zero ? zero->zero_grad() : model.zero_grad();
            MicroBatch drawn = batch;
            if (rank.has("micro_batches", "alike")) drawn.index = 0;
            return squared_error(rank, drawn, regression_of_rank(batch.owner, kInputs, kOutputs),
                                 [&](const at::Tensor& input) { return training.forward(input); });
          },
      .backward =
          [&](const at::Tensor& loss, const MicroBatch&) {
            const bool is_undone = rank.has("loss", "undivided");
            (is_undone ? loss * training.options().accumulation : loss).backward();
          },
  });
}

/// The last of the micro-batches alone, which is `times` their mean if they are alike.
Expectation expect_last_one(const Cell& cell, double times) {
  if (number_on(cell, "accumulation") == 1) return expect_hidden();
  if (is_set(cell, "micro_batches", "alike")) {
    return times == 1 ? expect_hidden() : expect_multiple(cell, times);
  }
  Expectation expectation = expect_alike_but_wrong(cell, {});
  expectation.pins.front().why = "the micro-batches that are lost are random";
  return expectation;
}

Expectation expect_share_of_last_one(const Cell& cell) {
  return expect_last_one(cell, 1 / static_cast<double>(number_on(cell, "accumulation")));
}

Expectation expect_all_of_last_one(const Cell& cell) { return expect_last_one(cell, 1); }

}  // namespace

Scenario accumulator_reset_every_backward() {
  return {
      .summary =
          "What was accumulated is dropped at every backward, not once per step: only the last "
          "micro-batch is left, divided by the number of all.",
      .origin =
          {"DeepSpeed, TRL, open-instruct, RAE",
           "deepspeedai/DeepSpeed#7718 (2025-12-09), huggingface/trl#4540; "
           "allenai/open-instruct#1498 (2026-02-26); by hand: bytetriper/RAE#67 (2026-02-05)",
           "ZeRO 2, which takes every backward for the boundary; the repair by marking the last "
           "one; zero_grad per micro-batch",
           "DeepSpeed's counter: here the clearing alone. The loss that is no longer divided is "
           "ours"},
      .variants =
          {buggy("zero-2-cleared-every-backward",
                 "ZeRO 2: each backward is the boundary, and starts without the earlier ones",
                 "engine=zero-2 cleared=every-backward", expect_share_of_last_one),
           buggy("zero-grad-per-micro-batch", "DDP: the loop clears gradients per micro-batch",
                 "engine=ddp cleared=every-backward", expect_share_of_last_one),
           wrong_fix("loss-undivided",
                     "ZeRO 2: the loss is not divided, so norms are as expected: of the last one",
                     "engine=zero-2 cleared=every-backward loss=undivided", expect_all_of_last_one),
           fixed("zero-2-cleared-once", "ZeRO 2: the last backward of the step is the boundary",
                 "engine=zero-2 cleared=once"),
           fixed("zero-grad-per-step", "DDP: gradients are cleared when the step begins",
                 "engine=ddp cleared=once"),
           reference("reference", "one process: the mean over the ranks' micro-batches")},
      .axes = {{"accumulation", {"1", "2", "4"}, "2"},
               {"micro_batches", {"drawn", "alike"}, "drawn"}},
      .claims = claims_before({kParametersAgree}, sharded_claims()),
      .body = train,
  };
}

}  // namespace lockstep
