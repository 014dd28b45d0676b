#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Where a local tensor lies in a global one: `offset` per dimension in elements.
struct Shard {
  std::vector<std::int64_t> global_shape;
  std::vector<std::int64_t> offset;
};

/// A tensor with its name in the model: "layers.0.weight". An undefined one stands for a tensor
/// that is not there, such as a gradient that was never computed.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  std::optional<Shard> shard = {};  ///< where it lies when it is a part; absent: it is whole
  std::string replica_group = {};   ///< who holds copies of it; empty: all ranks
};

}  // namespace lockstep
