#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "harness/train/autograd/activation_checkpoint.h"
#include "harness/train/nn/vision_language_model.h"

namespace lockstep {

/// How the segments of a model, its blocks, run. The default runs them without checkpoints.
struct CheckpointedSegments {
  bool reentrant = false;
  bool non_reentrant = false;
  bool offloads = false;  ///< the tensor that the checkpoint saves: the segment's input
  bool nests = false;     ///< the MLP of a language block is checkpointed again inside the block
  CheckpointOptions options = {};  ///< their generators are the model's own
};

/// A vision-language model with a dropout before each block, inside the block's checkpoint.
///
/// A re-entrant checkpoint is recorded only if its input requires a gradient. Trainers set this on
/// the output of a frozen embedding (`enable_input_require_grads`). Here the first block does it.
class CheckpointedModel {
 public:
  /// `dropped` is the probability that an element is dropped; `generator` draws the weights.
  CheckpointedModel(const VisionLanguageOptions& options, double dropped,
                    const at::Generator& generator);

  Module& module() { return model_; }

  /// Returns the logits. `seed` draws the masks.
  at::Tensor run(CheckpointedSegments segments, const at::Tensor& image, const at::Tensor& tokens,
                 std::uint64_t seed);

  /// With zeros: backward then adds in place and allocates none.
  void fill_missing_gradients();

 private:
  at::Generator masks_;
  Dropout dropout_;
  VisionLanguageModel model_;
};

}  // namespace lockstep
