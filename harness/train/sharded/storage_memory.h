#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// Gives the storage of `tensor`, a whole storage, memory of any content; nothing where it has it.
void allocate_storage(const at::Tensor& tensor);

/// Takes the memory of `tensor`'s storage away: every tensor of this storage keeps its shape and
/// has no data. What reads one fails as torch has it fail.
void release_storage(const at::Tensor& tensor);

}  // namespace lockstep
