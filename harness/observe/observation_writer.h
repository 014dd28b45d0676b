#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/observe/digester.h"
#include "harness/observe/keep_policy.h"
#include "harness/observe/named_tensor.h"
#include "harness/record/journal.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// How a rank is observed.
struct ObservingOptions {
  std::string identity = {};  ///< says in the files who writes them; empty: they do not
  KeepPolicy keep = KeepPolicy::all();
  std::unique_ptr<Digester> digester = {};  ///< null: a CpuDigester
};

/// Looks at the tensors of one rank and writes down what it saw: a row in the journal and, where it
/// is kept, the value itself. Does not communicate, synchronises no device but the tensors' own,
/// changes no tensor and no autograd state. One thread at a time.
///
/// A tensor is known by micro-batch, phase, kind and name, and is observed once in a step under
/// these: a second value would overwrite the first.
class ObservationWriter {
 public:
  /// Files go to `folder`, named after `rank`. Throws Error (usage) when they cannot be made.
  ObservationWriter(std::filesystem::path folder, int rank, ObservingOptions options = {});
  ~ObservationWriter();  ///< writes what `finish` did not; drops errors
  ObservationWriter(const ObservationWriter&) = delete;
  ObservationWriter& operator=(const ObservationWriter&) = delete;

  /// Begins step `step`: the values kept in the step before are written to their file. The first is
  /// 1 or later, and steps increase; anything else is an Error (internal). Micro-batch 0 begins.
  void begin_step(std::int64_t step);

  /// Begins micro-batch `micro_batch` (from 0) of the step.
  void begin_micro_batch(std::int64_t micro_batch) { micro_batch_ = micro_batch; }

  /// Notes `tensors` in their order, in a step. What cannot be compared (`describe`) is noted with
  /// the reason. Throws Error (usage) when the journal cannot be written, Error (internal) when the
  /// step has one of them already or a shard does not fit, and what the digester throws. But for
  /// the first, none of them has a row then.
  void observe(Phase phase, Kind kind, std::span<const NamedTensor> tensors);

  /// Writes what is kept. The step goes on: what is observed later is written by the next `finish`
  /// or `begin_step`. Throws Error (usage) when that fails; it may be called again.
  void finish();

  /// Rows of the journal.
  std::int64_t rows() const { return rows_; }

 private:
  Observation row_of(Phase phase, Kind kind, const NamedTensor& tensor);
  void note_key(const std::string& key);
  std::vector<DigestTask> tasks_for(std::span<const NamedTensor> tensors,
                                    std::vector<Observation>& rows);
  void append(const std::vector<Observation>& rows);
  void keep(std::vector<DigestTask> tasks);

  std::filesystem::path folder_;
  int rank_;
  ObservingOptions options_;
  JournalWriter journal_;
  std::int64_t rows_ = 0;
  std::int64_t step_ = 0;
  std::int64_t micro_batch_ = 0;
  std::set<std::string> keys_;                  ///< of this step
  std::map<std::string, SnapshotTensor> kept_;  ///< of this step
  bool all_written_ = true;
};

}  // namespace lockstep
