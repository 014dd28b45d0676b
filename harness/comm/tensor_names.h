#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace lockstep {

/// What a tensor is to the program.
struct TensorName {
  std::string text;     ///< "gradient of layers.0.weight"; empty: not known
  std::int32_t id = 0;  ///< equal for equal texts; 0: not known
};

/// Gives a parameter a name by which collectives on it, on its gradient or on a bucket that begins
/// with its gradient are logged. A later name replaces an earlier one: a part of a model does not
/// know what the whole calls it. Does not keep the tensor alive. Any thread.
void name_parameter(const at::Tensor& parameter, const std::string& name);

/// What `tensor` is now, by where it lies; empty where it is nobody's. Well under a microsecond on
/// average. Any thread, but not while another one assigns gradients.
TensorName name_of(const at::Tensor& tensor);

/// A name that is given to a collective instead.
TensorName tag_name(const std::string& text);

/// How many parameters were given a name so far: what a part is called until its model names it.
std::int64_t parameters_named();

}  // namespace lockstep
