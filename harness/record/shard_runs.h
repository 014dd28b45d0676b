#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harness/record/observation.h"

namespace lockstep {

/// Index of the element `number`, in row-major order, of a tensor of `shape`.
std::vector<std::int64_t> index_of(std::int64_t number, const std::vector<std::int64_t>& shape);

/// The number of elements of a tensor of `shape`.
std::int64_t element_count(const std::vector<std::int64_t>& shape);

/// Throws Error (internal) unless the part lies in its global tensor.
void require_inside(const ObservedTensor& part);

/// Consecutive elements in the row-major order of a global tensor.
struct Run {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

/// The number of those runs. Requires: the element count of the global tensor does not overflow.
std::int64_t number_of_runs(const ObservedTensor& tensor);

/// Position of the observed part in its global tensor: runs of equal length, in the order of its
/// own elements. A whole tensor is one run, an empty part has none.
std::vector<Run> runs_of(const Observation& observation);

/// Runs of equal length whose beginnings are `stride` elements of the global tensor apart.
struct RegularRuns {
  Run first;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};

/// The same position. Empty if the distances of its runs differ: the part is cut in two dimensions
/// besides the first.
std::optional<RegularRuns> regular_runs_of(const ObservedTensor& part);

/// Contribution of the part to the digest of its global tensor. `bytes` are its elements in
/// row-major order, each of `element_size` bytes. Requires: as many elements as its shape says.
Digest digest_of_part(const Observation& observation, std::span<const std::byte> bytes,
                      std::size_t element_size);

}  // namespace lockstep
