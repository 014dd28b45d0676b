#include "harness/train/loop/norm_between_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <optional>

#include "harness/train/autograd/activation_offload.h"

namespace lockstep {

FrozenStatistics::FrozenStatistics(const Module& model) : buffers_(model.buffers()) {
  for (const at::Tensor& buffer : buffers_) before_.push_back(buffer.clone());
}

FrozenStatistics::~FrozenStatistics() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(before_[i]);
}

NormBetweenLayers::NormBetweenLayers(std::int64_t width, const at::Generator& generator)
    : below_(register_module("below", std::make_shared<Linear>(width, width, generator))),
      norm_(register_module("norm", std::make_shared<BatchNorm1d>(width))),
      above_(register_module("above", std::make_shared<Linear>(width, width, generator))) {}

at::Tensor NormBetweenLayers::forward(const at::Tensor& input) {
  return above_->forward(run_norm(below_->forward(input)));
}

at::Tensor NormBetweenLayers::run(const at::Tensor& input, bool freezes,
                                  const CheckpointOptions& options) {
  const auto runs = std::make_shared<int>(0);
  const auto segment = [this, freezes, runs](const at::Tensor& x) {
    std::optional<FrozenStatistics> frozen;
    if (++*runs > 1 && freezes) frozen.emplace(*this);
    return run_norm(x);
  };
  const at::Tensor below = below_->forward(input);
  const OffloadScope scope;
  return above_->forward(checkpoint(segment, below, options));
}

}  // namespace lockstep
