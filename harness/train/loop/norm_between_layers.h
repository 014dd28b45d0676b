#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/nn/module.h"

namespace lockstep {

/// Restores the buffers of a model on destruction, such as a BatchNorm's statistics. Shares them
/// with the model.
class FrozenStatistics {
 public:
  explicit FrozenStatistics(const Module& model);
  ~FrozenStatistics();
  FrozenStatistics(const FrozenStatistics&) = delete;
  FrozenStatistics& operator=(const FrozenStatistics&) = delete;

 private:
  std::vector<at::Tensor> buffers_, before_;
};

/// A BatchNorm `norm` and a ReLU between two linear layers, `below` and `above`.
class NormBetweenLayers : public Module {
 public:
  NormBetweenLayers(std::int64_t width, const at::Generator& generator);
  at::Tensor forward(const at::Tensor& input) override;  ///< [batch, width]

  /// `forward` with a checkpoint around the norm, whose input is offloaded. `freezes`: a second run
  /// keeps the statistics.
  at::Tensor run(const at::Tensor& input, bool freezes, const CheckpointOptions& options);

 private:
  at::Tensor run_norm(const at::Tensor& x) { return norm_->forward(x).relu(); }

  std::shared_ptr<Linear> below_;
  std::shared_ptr<BatchNorm1d> norm_;
  std::shared_ptr<Linear> above_;
};

}  // namespace lockstep
