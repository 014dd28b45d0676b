#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/autocast.h"

namespace lockstep {

/// State of generators. Stored as generators, which use no tensor memory.
class RandomState {
 public:
  explicit RandomState(std::vector<at::Generator> generators);
  void restore() const;

  const std::vector<at::Generator>& generators() const { return generators_; }

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Generator> states_;
};

/// A checkpointed segment and the conditions of its forward: the state of this thread at
/// construction.
class SegmentRerun {
 public:
  SegmentRerun(Segment segment, const CheckpointOptions& options);

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) const;

  /// Runs the segment with grad mode, under the conditions of its forward that the options select.
  /// Restores generators and autocast afterwards, even if the segment throws.
  std::vector<at::Tensor> again(const std::vector<at::Tensor>& inputs) const;

 private:
  Segment segment_;
  std::optional<RandomState> random_;
  std::optional<AutocastState> autocast_;
};

/// Adapts a segment of one tensor to lists.
Segment segment_of_one(const SegmentOfOne& segment);

}  // namespace lockstep
