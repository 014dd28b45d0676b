#pragma once

#include <ATen/core/Tensor.h>

#include "harness/train/autograd/saved_tensor_hooks.h"

namespace lockstep {

/// torch.autograd.graph.save_on_cpu: while it exists, tensors that autograd saves on this thread
/// are copied to host memory (`HostMemory`), and backward copies them back. Their own memory is
/// free once no other owner holds it. Values, dtype and shape return bit for bit, as do strides of
/// dense tensors. A tensor that is saved twice is copied twice.
///
/// A scope inside a checkpointed segment takes over the segment's tensors, so the checkpoint has no
/// placeholders for them and recomputes nothing. Around a checkpoint it offloads the checkpoint's
/// inputs. Around `checkpoint_reentrant` this is offloading as used by single-GPU trainers; around
/// `checkpoint` it works under DDP.
///
/// Unlike torch, it does not copy a leaf that requires a gradient, or a view of one. A parameter
/// lives anyway, so a copy would only cost memory.
class OffloadScope {
 public:
  OffloadScope();

 private:
  SavedTensorHooks hooks_;
};

}  // namespace lockstep
