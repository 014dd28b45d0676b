#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/train/nn/vision_language_model.h"
#include "harness/train/rank/rank.h"

namespace lockstep {

/// float32 if the cell has no axis `dtype`.
at::ScalarType dtype_of(const Cell& cell);

/// One input of the model during training.
struct MicroBatch {
  int owner = 0;  ///< the rank whose shard it is
  std::int64_t step = 1;
  std::int64_t index = 0;  ///< in the step, from 0

  /// A unique seed, as long as bases are further apart than 100 times the steps, and below 10^9
  /// including the last step's seeds.
  std::uint64_t seed(std::uint64_t base) const;
};

/// Normal numbers of `shape` in the dtype of the cell: a model's input, or its target. Drawn by
/// batch and `base`; perturbed in a perturbed reference.
at::Tensor normal_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                        at::IntArrayRef shape);

/// The same of -1, 0 and 1, whose sums of products are exact.
at::Tensor whole_input(Rank& rank, const MicroBatch& batch, std::uint64_t base,
                       at::IntArrayRef shape);

/// A regression on normal numbers: inputs [rows..., inputs], targets [rows..., outputs].
struct Regression {
  std::vector<std::int64_t> rows;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::uint64_t inputs_base = 1'000'000;  ///< of the seeds
  std::uint64_t targets_base = 2'000'000;
};

/// A regression with 2 + `owner` rows, so that no two ranks weigh a row alike.
Regression regression_of_rank(int owner, std::int64_t inputs, std::int64_t outputs);

/// The mean squared error (0-dim) of `forward`.
at::Tensor squared_error(Rank& rank, const MicroBatch& batch, const Regression& regression,
                         const Module::Forward& forward);
/// The same with the seeds of `Regression`, for `forward` or for a call of `model`.
at::Tensor squared_error(Rank& rank, const MicroBatch& batch, const Module::Forward& forward,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs);
at::Tensor squared_error(Rank& rank, const MicroBatch& batch, Module& model,
                         const std::vector<std::int64_t>& rows, std::int64_t inputs,
                         std::int64_t outputs);

/// The input of a vision-language model of `sizes`: images [rows, channels, height, width] and
/// texts [rows, length]. Images are normal numbers in the dtype of the cell, perturbed in a
/// perturbed reference.
struct ImageText {
  at::Tensor image;
  at::Tensor tokens;
};
ImageText image_text_of(Rank& rank, const MicroBatch& batch, const VisionLanguageOptions& sizes,
                        std::int64_t rows, std::int64_t length);

}  // namespace lockstep
