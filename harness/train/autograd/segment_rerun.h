#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/autograd/autocast.h"

namespace lockstep {

/// Where generators stand. Kept as generators, which take no memory of tensors.
class RandomState {
 public:
  explicit RandomState(std::vector<at::Generator> generators);
  void restore() const;

  const std::vector<at::Generator>& generators() const { return generators_; }

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Generator> states_;  ///< one per generator
};

/// A checkpointed segment, and what its forward ran under: the state of this thread at
/// construction.
class SegmentRerun {
 public:
  SegmentRerun(Segment segment, const CheckpointOptions& options);

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) const;

  /// Runs the segment with grad mode, under what its forward ran under as far as the options say.
  /// Generators and autocast are then as before, also where the segment throws.
  std::vector<at::Tensor> again(const std::vector<at::Tensor>& inputs) const;

 private:
  Segment segment_;
  std::optional<RandomState> random_;
  std::optional<AutocastState> autocast_;
};

/// The segment of one tensor as one of several.
Segment segment_of_one(const SegmentOfOne& segment);

}  // namespace lockstep
