#pragma once

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/judge.h"
#include "harness/record/journal_writer.h"
#include "harness/record/shard_runs.h"
#include "harness/record/tensor_cells.h"
#include "reports/record/exit_cause.h"
#include "tests/temporary_folder.h"

namespace lockstep {

/// Writes the files of a cell by hand, so that the judge can be tested with records whose answer is
/// known.
class LiteralEvidence {
 public:
  explicit LiteralEvidence(int processes) : processes_(processes) {}

  struct Tensor {
    Kind kind = Kind::gradient;
    Phase phase = Phase::pre_step;
    std::int64_t micro_batch = 0;
  };

  /// Adds a one-dimensional float32 tensor of `rank`. The returned row may be modified until the
  /// next one is added.
  Observation& add(int rank, std::int64_t step, const std::string& name,
                   const std::vector<float>& values) {
    return add(rank, step, name, values, Tensor{});
  }
  Observation& add(int rank, std::int64_t step, const std::string& name,
                   const std::vector<float>& values, const Tensor& what) {
    Observation observation = bare(rank, step, name, what);
    SnapshotTensor tensor;
    tensor.shape = {static_cast<std::int64_t>(values.size())};
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    observation.global_shape = observation.local_shape = tensor.shape;
    observation.offset = {0};
    observation.digest = digest_run(tensor.bytes, 0);
    observation.statistics = statistics(DType::float32, tensor.bytes);
    kept_[{rank, step}][snapshot_key(observation)] = tensor;
    return rows_[rank].emplace_back(observation);
  }

  /// Gives a whole tensor that was just added another shape with as many elements.
  void reshape(Observation& observation, const std::vector<std::int64_t>& shape) {
    observation.global_shape = observation.local_shape = shape;
    observation.offset = Shape(shape.size(), 0);
    for (auto& [place, tensors] : kept_) {
      if (place.second != observation.step) continue;
      if (const auto kept = tensors.find(snapshot_key(observation)); kept != tensors.end()) {
        kept->second.shape = shape;
      }
    }
  }

  /// Adds a shard of a float32 tensor of `global_shape`: `local_shape` of it, from `offset` on.
  Observation& add_shard(int rank, std::int64_t step, const std::string& name,
                         const std::vector<float>& values, std::vector<std::int64_t> global_shape,
                         std::vector<std::int64_t> offset, std::vector<std::int64_t> local_shape) {
    add(rank, step, name, values, Tensor{});
    Observation& shard = rows_[rank].back();
    shard.global_shape = std::move(global_shape);
    shard.offset = std::move(offset);
    shard.local_shape = std::move(local_shape);
    shard.replica_group = "rank " + std::to_string(rank);
    SnapshotTensor& kept = kept_[{rank, step}][snapshot_key(shard)];
    kept.shape = shard.local_shape;
    shard.digest = digest_of_part(shard, kept.bytes, sizeof(float));
    return shard;
  }

  /// Adds a 0-dim int64.
  Observation& add_whole(int rank, std::int64_t step, const std::string& name, std::int64_t value,
                         const Tensor& what) {
    Observation observation = bare(rank, step, name, what);
    observation.dtype = "int64";
    SnapshotTensor tensor;
    tensor.dtype = DType::int64;
    tensor.bytes.resize(sizeof(value));
    std::memcpy(tensor.bytes.data(), &value, sizeof(value));
    observation.digest = digest_run(tensor.bytes, 0);
    observation.statistics = statistics(DType::int64, tensor.bytes);
    kept_[{rank, step}][snapshot_key(observation)] = tensor;
    return rows_[rank].emplace_back(observation);
  }

  Observation& add_undefined(int rank, std::int64_t step, const std::string& name) {
    return add_undefined(rank, step, name, Tensor{});
  }
  Observation& add_undefined(int rank, std::int64_t step, const std::string& name,
                             const Tensor& what) {
    Observation observation = bare(rank, step, name, what);
    observation.dtype = {};
    observation.not_comparable = "undefined";
    return rows_[rank].emplace_back(observation);
  }

  /// Omits the snapshots of a step, like a rank that was killed.
  void lose_values(int rank, std::int64_t step) { kept_.erase({rank, step}); }

  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Writes everything; call once.
  StepReader write() const {
    write_as([](int) { return std::string(); });
    return StepReader(folder_.path(), processes_);
  }

  /// The same with `identity(rank)` as the writer, like files of a real cell; does not read it.
  template <class Identity>
  void write_as(const Identity& identity) const {
    for (int rank = 0; rank < processes_; ++rank) {
      JournalWriter journal(folder_.path() / ("rank-" + std::to_string(rank) + ".csv"),
                            identity(rank));
      for (const Observation& observation : rows_in_order(rank)) journal.append(observation);
    }
    for (const auto& [place, tensors] : kept_) {
      const auto kept = with_rows(place, tensors);
      if (kept.empty()) continue;
      write_safetensors(snapshot_file(folder_.path(), place.first, place.second), kept,
                        identity(place.first));
    }
  }

 private:
  Observation bare(int rank, std::int64_t step, const std::string& name, const Tensor& what) {
    Observation observation;
    observation.seq = static_cast<std::int64_t>(rows_[rank].size());
    observation.step = step;
    observation.micro_batch = what.micro_batch;
    observation.phase = what.phase;
    observation.kind = what.kind;
    observation.name = name;
    observation.dtype = "float32";
    return observation;
  }

  /// By step, in a rank's writing order.
  std::vector<Observation> rows_in_order(int rank) const {
    const auto found = rows_.find(rank);
    if (found == rows_.end()) return {};
    std::vector<Observation> rows = found->second;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Observation& a, const Observation& b) { return a.step < b.step; });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].seq = static_cast<std::int64_t>(i);
      // For a row that was changed to another type.
      if (is_of_whole_numbers(rows[i].dtype)) rows[i].statistics.minimum = Extreme();
      if (is_of_whole_numbers(rows[i].dtype)) rows[i].statistics.maximum = Extreme();
    }
    return rows;
  }

  using Tensors = std::map<std::string, SnapshotTensor>;

  /// The tensors that still have a row: a modified row may describe another tensor.
  Tensors with_rows(std::pair<int, std::int64_t> place, Tensors tensors) const {
    std::set<std::string> keys;
    for (const Observation& row : rows_.at(place.first)) {
      if (row.step == place.second && row.not_comparable.empty()) keys.insert(snapshot_key(row));
    }
    std::erase_if(tensors, [&](const auto& entry) { return !keys.contains(entry.first); });
    return tensors;
  }

  int processes_;
  TemporaryFolder folder_;
  std::map<int, std::vector<Observation>> rows_;
  std::map<std::pair<int, std::int64_t>, std::map<std::string, SnapshotTensor>> kept_;
};

inline std::vector<ClaimResult> judge(const CellEvidence& cell) {
  return judge(cell, facts_of(cell)).results;
}

/// Reads every step, like a judge.
inline void read_all(const StepReader& evidence) {
  for (const std::int64_t step : evidence.steps()) evidence.at(step);
}

inline const Claim kAgree = agree_across_ranks(Kind::gradient, Phase::pre_step);
inline const Claim kEqual = equal_reference(Kind::gradient, Phase::pre_step);

inline ClaimResult judge_one(const Claim& claim, const StepReader& evidence,
                             const StepReader* reference = nullptr,
                             std::vector<RankExit> exits = {}) {
  CellEvidence cell;
  cell.world_size = evidence.processes();
  cell.claims = {claim};
  cell.evidence = &evidence;
  cell.reference = reference;
  cell.exits = std::move(exits);
  return judge(cell).front();
}

inline RankExit exit_of(int rank, ExitKind ending, int order, std::string error = "") {
  RankExit end;
  end.rank = rank;
  end.kind = ending;
  end.order = order;
  end.step = 2;
  end.error = std::move(error);
  // As in the status of a rank that raised.
  if (ending == ExitKind::raised && is_loss_of_peer(end.error)) end.cause = ExitCause::lost_peer;
  return end;
}

}  // namespace lockstep
