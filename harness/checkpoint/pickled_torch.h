#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/checkpoint/pickle.h"
#include "harness/record/dtype.h"

namespace lockstep {

/// The type of "torch.float32"; empty: it is none that is read.
std::optional<DType> dtype_of_global(std::string_view global);

/// The type of the elements of "torch.FloatStorage"; empty: it is none that is read.
std::optional<DType> dtype_of_storage(std::string_view global);

/// Of a tensor of torch.
inline constexpr std::size_t kMostDimensions = 64;

/// The numbers of a tuple, or of a torch.Size; empty: it is neither, one is negative, or there are
/// more than `kMostDimensions`.
std::optional<std::vector<std::int64_t>> whole_numbers(PickleRef value);

/// Elements of a tensor; empty: the number of its bytes does not fit into 63 bits.
std::optional<std::int64_t> stored_count(const std::vector<std::int64_t>& shape);

}  // namespace lockstep
