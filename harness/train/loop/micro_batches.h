#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/training.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// Whether the name of the variant has `words`: variants and their references name the condition
/// that they share.
bool is_about(const Cell& cell, std::string_view words);

/// How a step is trained.
struct MicroBatchOptions {
  bool wraps = true;  ///< else every rank trains alone, without DDP
  DdpOptions ddp;
  std::int64_t accumulation = 1;  ///< micro-batches of a step
  bool no_sync = false;           ///< all but the last run inside `no_sync`
  bool prior = false;             ///< parameters have a gradient when the step begins
  double learning_rate = 0.05;    ///< of plain SGD
  /// The reference goes backward once for each micro-batch of a rank, not once for all: where it
  /// computes in a narrower dtype than its gradients have, these add up in theirs.
  bool reference_adds_gradients = false;
  /// Called when the backward of a micro-batch has ended; not in the reference, where one backward
  /// is that of all. Empty: nothing is.
  std::function<void(const MicroBatch& batch)> after_backward = {};
};

/// What the cell's axes ask for; the above on axes that it does not have.
MicroBatchOptions micro_batch_options(const Cell& cell);

/// The forward pass of a micro-batch, to its loss (0-dim). `ddp` is null where nothing wraps the
/// model, as in the reference.
using ForwardPass =
    std::function<at::Tensor(const MicroBatch& batch, DistributedDataParallel* ddp)>;

/// Trains `model`: gradients of the micro-batches of a step add up, each divided by their number,
/// then SGD. In the reference they are the mean over the ranks; else DDP around `model` makes them
/// that. Observes gradients at `pre_step`, parameters at `post_step` and where the model lies.
void train_in_micro_batches(Rank& rank, Module& model, const MicroBatchOptions& options,
                            const ForwardPass& loss_of);

}  // namespace lockstep
