#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Notes `value` under `name` on a tensor, as Python code sets attributes of a parameter. It
/// belongs to the tensor itself, whoever holds it, also where its data are replaced (`set_data`);
/// views, detached and other copies have none. Does not keep the tensor alive. Any thread.
void set_attribute(const at::Tensor& tensor, const std::string& name, std::int64_t value);

/// Absent: nobody has set it.
std::optional<std::int64_t> attribute(const at::Tensor& tensor, const std::string& name);

}  // namespace lockstep
