#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// Role of a tensor in the program.
struct TensorName {
  std::string text;     ///< "gradient of layers.0.weight"; empty: unknown
  std::int32_t id = 0;  ///< equal for equal texts; 0: unknown
};

/// Names a parameter in the log of collectives on it, on its gradient or on a bucket that begins
/// with its gradient. A later name replaces an earlier one, because a submodule does not know its
/// name in the whole model. Does not keep the tensor alive. Any thread.
void name_parameter(const at::Tensor& parameter, const std::string& name);

/// The current name of `tensor`, by its memory address; empty if unnamed. Well under a microsecond
/// on average. Any thread, but not while another one assigns gradients on the device of `tensor`.
TensorName name_of(const at::Tensor& tensor);

/// The name of a collective's tag, used instead.
TensorName tag_name(const std::string& text);

/// Number of parameters named so far. It provides names for parts until their model names them.
std::int64_t parameters_named();

}  // namespace lockstep
