#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/record/observation.h"
#include "harness/record/shard_runs.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// Whether `observation` is of a part of a tensor, or of what one rank alone holds: no copy of it
/// is to be expected on the others.
bool is_shard(const Observation& observation);

/// Whether `shard` says that it lies in a tensor like `whole`: of its global shape, or of that of
/// the tensor when it is flattened.
bool lies_in(const Observation& shard, const Observation& whole);

/// The elements of `whole` that `shard` covers, in the shape of the shard. Requires: it lies in it.
SnapshotTensor cut(const SnapshotTensor& whole, const Observation& shard);

/// The index in the tensor `whole` of the element of `shard` that has `index` there.
std::vector<std::int64_t> index_in_whole(const std::vector<std::int64_t>& index,
                                         const Observation& shard, const Observation& whole);

/// The first elements of `whole`, in row-major order, that are in none of `shards`; nothing when
/// all are. Requires: they lie in it.
std::optional<Run> first_gap(const Observation& whole,
                             const std::vector<const Observation*>& shards);

}  // namespace lockstep
