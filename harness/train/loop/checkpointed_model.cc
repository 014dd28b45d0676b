#include "harness/train/loop/checkpointed_model.h"

#include <ATen/ops/zeros_like.h>

#include <optional>

#include "harness/train/autograd/activation_offload.h"

namespace lockstep {
namespace {

at::Tensor requiring_gradient(const at::Tensor& input) {
  return input.requires_grad() ? input : input.detach().requires_grad_(true);
}

at::Tensor run_segment(const CheckpointedSegments& how, const SegmentOfOne& segment,
                       const at::Tensor& input) {
  std::optional<OffloadScope> scope;
  if (how.offloads) scope.emplace();
  if (how.reentrant) return checkpoint_reentrant(segment, requiring_gradient(input), how.options);
  return how.non_reentrant ? checkpoint(segment, input, how.options) : segment(input);
}

}  // namespace

CheckpointedModel::CheckpointedModel(const VisionLanguageOptions& options, double dropped,
                                     const at::Generator& generator)
    : masks_(cpu_generator(0)), dropout_(dropped, masks_), model_(options, generator) {}

at::Tensor CheckpointedModel::run(CheckpointedSegments segments, const at::Tensor& image,
                                  const at::Tensor& tokens, std::uint64_t seed) {
  masks_.set_current_seed(seed);
  segments.options.generators = {masks_};
  model_.run_blocks_with([this, segments](Module& block, const at::Tensor& input) {
    const auto segment = [this, &block](const at::Tensor& x) {
      return block.forward(dropout_.forward(x));
    };
    return run_segment(segments, segment, input);
  });
  model_.run_mlps_with([segments](Module& mlp, const at::Tensor& input) {
    const auto segment = [&mlp](const at::Tensor& x) { return mlp.forward(x); };
    return segments.nests ? run_segment(segments, segment, input) : segment(input);
  });
  return model_.forward(image, tokens);
}

void CheckpointedModel::fill_missing_gradients() {
  for (const at::Tensor& parameter : model_.parameters()) {
    if (parameter.requires_grad() && !parameter.grad().defined()) {
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
  }
}

}  // namespace lockstep
