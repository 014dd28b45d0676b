#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/record/observation.h"

namespace lockstep {

/// Where element `number`, in row-major order, is in a tensor of `shape`.
std::vector<std::int64_t> index_of(std::int64_t number, const std::vector<std::int64_t>& shape);

/// Elements that lie behind one another in the row-major order of a global tensor.
struct Run {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

/// The number of those runs. Requires that the elements of the global tensor can be counted.
std::int64_t number_of_runs(const ObservedTensor& tensor);

/// How the part that was observed lies in its global tensor: runs of equal length, in the order of
/// its own elements; one for a whole tensor, none for an empty part.
std::vector<Run> runs_of(const Observation& observation);

/// What the part adds to the digest of its global tensor: `bytes` are its elements in
/// row-major order, each of `element_size` bytes. Requires: as many as its shape says.
Digest digest_of_part(const Observation& observation, std::span<const std::byte> bytes,
                      std::size_t element_size);

}  // namespace lockstep
