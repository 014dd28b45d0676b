#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/observe/named_tensor.h"
#include "harness/record/journal.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// Looks at the tensors of one rank and writes down what it saw: a row in the journal and the value
/// itself. Does not communicate, synchronises no device but the tensor's own, changes no tensor and
/// no autograd state. One thread at a time.
///
/// A tensor is known by micro-batch, phase, kind and name, and is observed once in a step under
/// these: a second value would overwrite the first.
class Observer {
 public:
  /// Files go to `folder`, named after `rank`, and say in `identity` who writes them (empty: they
  /// do not). Throws Error (usage) when they cannot be made.
  Observer(std::filesystem::path folder, int rank, std::string identity = "");
  ~Observer();  ///< writes what `finish` did not; drops errors
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  /// Begins step `step`: the values kept in the step before are written to their file. The first is
  /// 1 or later, and steps increase; anything else is an Error (internal). Micro-batch 0 begins.
  void begin_step(std::int64_t step);

  /// Begins micro-batch `micro_batch` (from 0) of the step.
  void begin_micro_batch(std::int64_t micro_batch);

  /// Notes one tensor, in a step. What `look_at` cannot compare is noted with the reason. `shard`:
  /// where it lies when it is a part; absent: it is whole. `replica_group`: who holds copies of it;
  /// empty: all ranks. Throws Error (usage) when the journal
  /// cannot be written, Error (internal) when the step has this tensor already.
  void observe(Phase phase, Kind kind, std::string_view name, const at::Tensor& tensor,
               const std::optional<Shard>& shard = std::nullopt,
               std::string_view replica_group = "");

  /// Writes what is kept. The step goes on: what is observed later is written by the next `finish`
  /// or `begin_step`. Throws Error (usage) when that fails; it may be called again.
  void finish();

  std::int64_t step() const { return step_; }

  /// Rows of the journal.
  std::int64_t rows() const { return seq_; }

  /// Time spent in this object so far: what is measured of a step is told without it.
  std::chrono::nanoseconds time_spent() const { return time_spent_; }

 private:
  void note_key(const std::string& key);

  std::filesystem::path folder_;
  int rank_;
  std::string identity_;
  JournalWriter journal_;
  std::int64_t seq_ = 0;
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
  std::set<std::string> keys_;                  ///< of this step
  std::map<std::string, SnapshotTensor> kept_;  ///< of this step
  bool all_written_ = true;
  std::chrono::nanoseconds time_spent_{0};
};

}  // namespace lockstep
