#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/record/observation.h"
#include "harness/record/shard_runs.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// Whether it is less than the whole tensor.
bool is_part(const ObservedTensor& tensor);

/// Whether `observation` is a part of a tensor, or is held by one rank alone. Other ranks then have
/// no copy of it.
bool is_shard(const Observation& observation);

/// Whether `shard` describes a part of a tensor like `whole`: it names the same global shape, or
/// that of the flattened tensor.
bool lies_in(const Observation& shard, const Observation& whole);

/// The elements of `whole` covered by `shard`, in the shape of the shard. Requires: `lies_in`.
SnapshotTensor cut(const SnapshotTensor& whole, const Observation& shard);

/// Maps an element's `index` in `shard` to its index in the tensor `whole`.
std::vector<std::int64_t> index_in_whole(const std::vector<std::int64_t>& index,
                                         const Observation& shard, const Observation& whole);

/// The first elements of `whole`, in row-major order, that no shard covers; empty if all are
/// covered. Requires: `lies_in` for each shard.
std::optional<Run> first_gap(const Observation& whole,
                             const std::vector<const Observation*>& shards);

}  // namespace lockstep
