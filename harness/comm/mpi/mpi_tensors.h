#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// Throws c10::Error unless MPI can access `tensor` directly in its memory.
void check_tensor(const at::Tensor& tensor);

/// The single tensor of `tensors`. Throws c10::Error if there are more or none.
const at::Tensor& only(const std::vector<at::Tensor>& tensors);

/// The list of a collective with one tensor per rank: `count` tensors like `block`. Throws
/// c10::Error for anything else.
const std::vector<at::Tensor>& list_of(const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& block, int count);

/// Throws c10::Error unless `whole` is `count` blocks like `block`.
void check_blocks(const at::Tensor& whole, const at::Tensor& block, int count);

/// Memory for `count` contiguous tensors like `tensor`.
at::Tensor room_for(const at::Tensor& tensor, std::int64_t count);

/// The tensors in one contiguous tensor: a copy, or the tensor itself if there is only one. All
/// must have the same dtype; otherwise throws c10::Error.
at::Tensor packed(const std::vector<at::Tensor>& tensors);

/// The reverse of `packed`; does nothing if nothing was copied.
void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace lockstep
