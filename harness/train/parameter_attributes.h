#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Notes `value` under `name` on a tensor, as Python code sets attributes of a parameter. It stays
/// with the tensor, whoever holds it, also where its data are replaced (`set_data`), and goes with
/// its last owner. Detached copies and parameters whose data become this tensor's begin with a copy
/// of its attributes; results of other functions have none.
void set_attribute(const at::Tensor& tensor, const std::string& name, std::int64_t value);

/// Absent: nobody has set it.
std::optional<std::int64_t> attribute(const at::Tensor& tensor, const std::string& name);

}  // namespace lockstep
