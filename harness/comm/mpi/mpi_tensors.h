#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// Throws c10::Error unless MPI can read and write `tensor` as it lies in memory.
void check_tensor(const at::Tensor& tensor);

/// The one tensor of `tensors`. Throws c10::Error where there are more or none.
const at::Tensor& only(const std::vector<at::Tensor>& tensors);

/// The list of a collective that takes or gives a tensor a rank: `count` tensors like `block`.
/// Throws c10::Error for anything else.
const std::vector<at::Tensor>& list_of(const std::vector<std::vector<at::Tensor>>& lists,
                                       const at::Tensor& block, int count);

/// Throws c10::Error unless `whole` is `count` blocks like `block`.
void check_blocks(const at::Tensor& whole, const at::Tensor& block, int count);

/// Room for the elements of `count` tensors like `tensor`, one behind the other.
at::Tensor room_for(const at::Tensor& tensor, std::int64_t count);

/// The tensors one behind the other: a copy, or the tensor itself where there is one. All have the
/// same dtype; throws c10::Error else.
at::Tensor packed(const std::vector<at::Tensor>& tensors);

/// The reverse of `packed`; does nothing where nothing was copied.
void unpack(const at::Tensor& packed, const std::vector<at::Tensor>& tensors);

void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace lockstep
