#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/observe/named_tensor.h"
#include "harness/record/observation.h"

namespace lockstep {

/// What can be said of `tensor` without its value: dtype, shapes, and why it is not comparable.
/// `shard`: where it lies when it is a part; absent: it is whole.
///
/// Not comparable, with the reason: undefined tensors (without dtype and shapes), subclasses
/// defined in Python, nested ones, layouts other than strided, meta tensors, those whose storage is
/// freed, and dtypes that DType does not name, quantized ones among them. Throws Error (internal)
/// when the tensor does not fit where `shard` says it lies.
Observation describe(const at::Tensor& tensor, const std::optional<Shard>& shard);

/// The observation of `tensor` alone: what `describe` says of it, and, where it is comparable, what
/// CpuDigester makes of it. `bytes` receives the row-major bytes of the local part when it is not
/// null and the tensor is comparable. Bytes are taken as they are: -0.0 and the payloads of NaN
/// count.
Observation look_at(const at::Tensor& tensor, const std::optional<Shard>& shard,
                    std::vector<std::byte>* bytes);

}  // namespace lockstep
