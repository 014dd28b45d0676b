#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Position of a local tensor in a global one: `offset` per dimension in elements.
struct Shard {
  std::vector<std::int64_t> global_shape;
  std::vector<std::int64_t> offset;
};

/// A tensor with its name in the model: "layers.0.weight". An undefined one stands for a missing
/// tensor, such as a gradient that was never computed.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  std::optional<Shard> shard = {};  ///< position if it is a part; absent: it is whole
  std::string replica_group = {};   ///< ranks with copies of it; empty: all ranks
};

}  // namespace lockstep
