#pragma once

#include <ATen/core/Tensor.h>

namespace lockstep {

/// Allocates uninitialised memory for the storage of `tensor`, which covers it all; does nothing if
/// it has some.
void allocate_storage(const at::Tensor& tensor);

/// Frees the memory of `tensor`'s storage: every tensor of this storage keeps its shape and has no
/// data. Reads fail with torch's errors.
void release_storage(const at::Tensor& tensor);

}  // namespace lockstep
