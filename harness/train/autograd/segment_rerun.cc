#include "harness/train/autograd/segment_rerun.h"

#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>

#include <mutex>
#include <utility>

namespace lockstep {

namespace {

class RandomScope {
 public:
  explicit RandomScope(const RandomState& state) : before_(state.generators()) { state.restore(); }
  ~RandomScope() { before_.restore(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState before_;
};

}  // namespace

RandomState::RandomState(std::vector<at::Generator> generators)
    : generators_(std::move(generators)) {
  for (at::Generator& generator : generators_) {
    const std::lock_guard lock(generator.mutex());
    states_.push_back(generator.clone());
  }
}

void RandomState::restore() const {
  for (std::size_t i = 0; i < generators_.size(); ++i) {
    at::Generator generator = generators_[i];
    const std::lock_guard lock(generator.mutex());
    generator.set_state(states_[i].get_state());
  }
}

SegmentRerun::SegmentRerun(Segment segment, const CheckpointOptions& options)
    : segment_(std::move(segment)) {
  if (options.restore_random) random_.emplace(options.generators);
  if (options.restore_autocast) autocast_ = autocast_state();
}

std::vector<at::Tensor> SegmentRerun::forward(const std::vector<at::Tensor>& inputs) const {
  return segment_(inputs);
}

std::vector<at::Tensor> SegmentRerun::again(const std::vector<at::Tensor>& inputs) const {
  std::optional<RandomScope> random;
  if (random_) random.emplace(*random_);
  std::optional<AutocastScope> autocast;
  if (autocast_) autocast.emplace(*autocast_);
  const at::AutoGradMode with_grad(true);
  return segment_(inputs);
}

Segment segment_of_one(const SegmentOfOne& segment) {
  return [segment](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{segment(inputs.front())};
  };
}

}  // namespace lockstep
