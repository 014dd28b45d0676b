#include "harness/judge/values/shards.h"

#include <algorithm>
#include <cstddef>

#include "harness/record/shard_runs.h"

namespace lockstep {

bool is_part(const ObservedTensor& tensor) { return tensor.local_shape != tensor.global_shape; }

bool is_shard(const Observation& observation) {
  return is_part(observation) || !observation.replica_group.empty();
}

bool lies_in(const Observation& shard, const Observation& whole) {
  const std::vector<std::int64_t> flattened{element_count(whole.global_shape)};
  return shard.global_shape == whole.global_shape || shard.global_shape == flattened;
}

SnapshotTensor cut(const SnapshotTensor& whole, const Observation& shard) {
  SnapshotTensor part{whole.dtype, shard.local_shape, {}};
  const auto size = static_cast<std::int64_t>(item_size(whole.dtype));
  for (const Run& run : runs_of(shard)) {
    const auto begin = whole.bytes.begin() + run.begin * size;
    part.bytes.insert(part.bytes.end(), begin, begin + run.length * size);
  }
  return part;
}

std::vector<std::int64_t> index_in_whole(const std::vector<std::int64_t>& index,
                                         const Observation& shard, const Observation& whole) {
  std::int64_t element = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    element = element * shard.global_shape[d] + shard.offset[d] + index[d];
  }
  return index_of(element, whole.global_shape);
}

std::optional<Run> first_gap(const Observation& whole,
                             const std::vector<const Observation*>& shards) {
  std::vector<Run> runs;
  for (const Observation* shard : shards) {
    const std::vector<Run> more = runs_of(*shard);
    runs.insert(runs.end(), more.begin(), more.end());
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const Run& run : runs) {
    if (run.begin > covered) return Run{covered, run.begin - covered};
    covered = std::max(covered, run.begin + run.length);
  }
  const std::int64_t elements = element_count(whole.global_shape);
  if (covered < elements) return Run{covered, elements - covered};
  return std::nullopt;
}

}  // namespace lockstep
