#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/scenario/expect.h"
#include "harness/scenario/scenario.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// The conditions of a training step under DDP that scenarios about its reducer share, as axes:
///   accumulation   micro-batches of a step: 1, 2, 4
///   no_sync        whether all of them but the last run inside `no_sync`
///   prior          whether parameters have a gradient when the step begins
///   bucket_view, find_unused, static_graph     DDP's options
///   bucket         standard, or small: a bucket per parameter, once they are rebuilt
///   dtype          of parameters and inputs
/// They stand behind `first`.
std::vector<Axis> ddp_axes(std::vector<Axis> first);

/// Whether the cell has `value` on `axis`.
bool is_set(const Cell& cell, std::string_view axis, std::string_view value = "on");

/// The number that the cell has on `axis`. Requires: it has that axis, and numbers are on it.
std::int64_t number_on(const Cell& cell, std::string_view axis);

/// Whether the name of the variant has `words`: variants and their references name the condition
/// that they share.
bool is_about(const Cell& cell, std::string_view words);

/// float32 where the cell has no axis `dtype`.
at::ScalarType dtype_of(const Cell& cell);

/// What is fed to the model at one place of the training.
struct MicroBatch {
  int owner = 0;  ///< the rank whose shard it is
  std::int64_t step = 1;
  std::int64_t index = 0;  ///< in the step, from 0

  /// A seed of its own, as long as bases are further apart than 100 times the steps, and below 10^9
  /// with the last step's.
  std::uint64_t seed(std::uint64_t base) const;
};

/// Normal numbers of `shape` in the dtype of the cell, drawn by batch and `base` and perturbed
/// where the reference is: what is fed to a model, or its target.
at::Tensor normal_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                        at::IntArrayRef shape);

/// The mean squared error (0-dim) of what `model` makes of normal numbers [rows..., inputs] beside
/// others [rows..., outputs].
at::Tensor squared_error(Rank& rank, const MicroBatch& batch, Module& model,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs);

/// What a vision-language model of `sizes` is fed: images [rows, channels, height, width] in the
/// dtype of the cell, normal, perturbed where the reference is, and as many texts [rows, length].
struct ImageText {
  at::Tensor image;
  at::Tensor tokens;
};
ImageText image_text_of(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        std::int64_t rows, std::int64_t length);

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
