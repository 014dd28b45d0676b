#include "harness/judge/values/whole_copies.h"

#include <algorithm>
#include <utility>

#include "harness/judge/values/held_tensors.h"
#include "harness/judge/values/shards.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// The ranks that hold each part, ascending.
using HoldersOfParts = std::map<HeldTensorKey, std::vector<int>>;

HoldersOfParts holders_of(const RowsOfRanks& parts) {
  HoldersOfParts holders;
  for (const auto& [rank, row] : parts) holders[HeldTensorKey(*row)].push_back(rank);
  return holders;
}

/// Whether the parts are those of `whole`, each once.
bool are_whole(const RowsOfRanks& parts, const HoldersOfParts& holders, const Observation& whole) {
  std::vector<const Observation*> shards;
  std::int64_t elements = 0;
  for (const auto& [part, ranks] : holders) {
    const Observation& shard = *parts.at(ranks.front());
    if (!lies_in(shard, whole)) return false;
    elements += element_count(shard.local_shape);
    shards.push_back(&shard);
  }
  return elements == element_count(whole.global_shape) && !first_gap(whole, shards);
}

/// Adds a part. Returns whether its value is known.
bool add(const StepView& step, int rank, const Observation& part, WholeCopy& copy) {
  const Sketch* const sketch = step.sketch(rank, part);
  const bool is_empty = element_count(part.local_shape) == 0;
  if (!part.not_comparable.empty() || part.statistics.non_finite > 0) return false;
  if (!sketch && !is_empty) copy.sketch.reset();
  if (sketch && copy.sketch) *copy.sketch += *sketch;
  copy.digest += part.digest;
  copy.ranks.push_back(rank);
  return true;
}

}  // namespace

std::map<std::string, RowsOfRanks> last_rows_of(const StepView& step, Kind kind, Phase phase) {
  std::map<std::string, RowsOfRanks> rows;
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind != kind || row.phase != phase) continue;
      const Observation*& last = rows[row.name][rank];
      if (!last || last->micro_batch <= row.micro_batch) last = &row;
    }
  }
  return rows;
}

std::vector<WholeCopy> whole_copies(const StepView& step, const RowsOfRanks& parts,
                                    const Observation& whole) {
  const HoldersOfParts holders = holders_of(parts);
  if (holders.empty() || !are_whole(parts, holders, whole)) return {};
  std::vector<WholeCopy> copies(holders.begin()->second.size());
  for (const auto& [part, ranks] : holders) {
    if (ranks.size() != copies.size()) return {};
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (!add(step, ranks[i], *parts.at(ranks[i]), copies[i])) return {};
    }
  }
  for (WholeCopy& copy : copies) std::ranges::sort(copy.ranks);
  std::ranges::sort(copies, {}, [](const WholeCopy& copy) { return copy.ranks.front(); });
  return copies;
}

}  // namespace lockstep
