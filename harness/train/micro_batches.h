#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/train/ddp.h"
#include "harness/train/rank.h"
#include "harness/train/scenario.h"

namespace lockstep {

/// The conditions of a training step under DDP that scenarios about its reducer share, as axes:
///   accumulation   micro-batches of a step: 1, 2, 4
///   no_sync        whether all of them but the last run inside `no_sync`
///   prior          whether parameters have a gradient when the step begins
///   bucket_view, find_unused, static_graph     DDP's options
///   bucket         standard, or small: a bucket per parameter, once they are rebuilt
///   dtype          of parameters and inputs
/// Axes whose name is in `left_out` are not among them; each is for `variants` (empty: all).
std::vector<Axis> ddp_axes(const std::vector<std::string>& left_out = {},
                           const std::vector<std::string>& variants = {});

/// Whether the cell has `value` on `axis`.
bool is_set(const Cell& cell, std::string_view axis, std::string_view value = "on");

/// float32 where the cell has no axis `dtype`.
at::ScalarType dtype_of(const Cell& cell);

/// How a step is trained.
struct MicroBatchOptions {
  bool wraps = true;  ///< else every rank trains alone, without DDP
  DdpOptions ddp;
  std::int64_t accumulation = 1;  ///< micro-batches of a step
  bool no_sync = false;           ///< all but the last run inside `no_sync`
  bool prior = false;             ///< parameters have a gradient when the step begins
  double learning_rate = 0.05;    ///< of plain SGD
};

/// What the cell's axes ask for; the above on axes that it does not have.
MicroBatchOptions micro_batch_options(const Cell& cell);

/// What is fed to the model at one place of the training.
struct MicroBatch {
  int owner = 0;  ///< the rank whose shard it is
  std::int64_t step = 1;
  std::int64_t index = 0;  ///< in the step, from 0

  /// A seed of its own, below `base` + 1'000'000.
  std::uint64_t seed(std::uint64_t base) const;
};

/// The forward pass of a micro-batch, to its loss (0-dim). `ddp` is null where nothing wraps the
/// model, as in the reference.
using ForwardPass =
    std::function<at::Tensor(const MicroBatch& batch, DistributedDataParallel* ddp)>;

/// Trains `model`: gradients of the micro-batches of a step add up, each divided by their number,
/// then SGD. In the reference they are the mean over the ranks; else DDP around `model` makes them
/// that. Observes gradients at `reduced` and parameters at `stepped`.
void train_in_micro_batches(Rank& rank, Module& model, const MicroBatchOptions& options,
                            const ForwardPass& loss_of);

}  // namespace lockstep
