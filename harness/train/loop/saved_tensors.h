#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

/// A checkpoint in memory: copies of `tensors`.
std::vector<at::Tensor> saved_tensors(const std::vector<at::Tensor>& tensors);

/// Copies `saved` into `tensors`, in place and outside autograd. Requires: the same shapes.
void load_tensors(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& saved);

}  // namespace lockstep
