#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/observe/named_tensor.h"
#include "harness/record/observation.h"

namespace lockstep {

/// Properties of `tensor` apart from its value: dtype, shapes, and why it is not comparable.
/// `shard`: its position if it is a part; absent: it is whole.
///
/// These tensors are not comparable, with the reason: undefined ones (without dtype and shapes),
/// subclasses defined in Python, nested ones, layouts other than strided, and meta tensors. So are
/// tensors with freed storage and those with a dtype that DType lacks, such as quantized ones.
/// Throws Error (internal) when the tensor does not fit at the position of `shard`.
Observation describe(const at::Tensor& tensor, const std::optional<Shard>& shard);

/// The observation of `tensor` alone: the result of `describe` and, if it is comparable, of
/// CpuDigester. If `bytes` is not null and the tensor is comparable, it receives the row-major
/// bytes of the local part. Bytes are taken unchanged: -0.0 and the payloads of NaN count.
Observation look_at(const at::Tensor& tensor, const std::optional<Shard>& shard,
                    std::vector<std::byte>* bytes);

}  // namespace lockstep
