#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Sets the attribute `name` of a tensor, as Python code does with a parameter. It belongs to the
/// tensor object, shared by all its holders, and survives a replacement of its data (`set_data`).
/// Views, detached tensors and other copies have none. Does not keep the tensor alive. Any thread.
void set_attribute(const at::Tensor& tensor, const std::string& name, std::int64_t value);

/// Absent: not set.
std::optional<std::int64_t> attribute(const at::Tensor& tensor, const std::string& name);

}  // namespace lockstep
