#pragma once

#include <ATen/core/Tensor.h>

#include "harness/train/autograd/saved_tensor_hooks.h"

namespace lockstep {

/// torch.autograd.graph.save_on_cpu: while it lives, the tensors that autograd saves on this thread
/// are copied to host memory (`HostMemory`) and backward copies them back; their own memory is free
/// as soon as no one else holds it. Values, dtype and shape come back bit for bit, strides where
/// the tensor is dense. A tensor that is saved twice is copied twice.
///
/// Begun inside of a checkpointed segment it takes the segment's tensors from the checkpoint, which
/// then keeps no place for them and recomputes nothing. Around a checkpoint it offloads what that
/// saves itself, its inputs: around `checkpoint_reentrant` this is offloading as trainers on one
/// GPU had it, around `checkpoint` it is what works under DDP.
///
/// Other than in torch, a leaf that requires a gradient, or a view of one, is not copied: a
/// parameter lives anyway, and its copy would only cost.
class OffloadScope {
 public:
  OffloadScope();

 private:
  SavedTensorHooks hooks_;
};

}  // namespace lockstep
