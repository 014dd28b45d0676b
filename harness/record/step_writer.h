#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/record/journal_writer.h"
#include "harness/record/keep_policy.h"
#include "harness/record/observation.h"
#include "harness/record/sketch.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// Writes the files of one rank step by step: a row per observation, and snapshots of the selected
/// values. One thread at a time.
///
/// A tensor is identified by micro-batch, phase, kind and name. It may be observed once per step
/// under these, because a second value would overwrite the first.
class StepWriter {
 public:
  /// Files go to `folder`, named after `rank`; `identity` names the writing process in them (empty:
  /// unnamed). A step that begins after `segment_rows` rows begins a segment; 0: there is one.
  /// Throws Error (usage) when they cannot be created.
  StepWriter(std::filesystem::path folder, int rank, std::string identity, KeepPolicy keep,
             std::int64_t segment_rows = 0);
  ~StepWriter();  ///< finishes; drops errors
  StepWriter(const StepWriter&) = delete;
  StepWriter& operator=(const StepWriter&) = delete;

  /// Begins step `step`, and writes the snapshots of the step before. Steps start at 1 or later and
  /// increase; otherwise throws Error (internal).
  void begin_step(std::int64_t step);
  std::int64_t step() const { return step_; }  ///< 0: none

  /// Claims the identity of a row in this step. Throws Error (internal) when no step has begun, or
  /// the step already has it.
  void claim(const Observation& row);

  /// Whether a value of `bytes` bytes is to be stored. If so, `keep` must follow.
  bool wants(std::uint64_t bytes) { return keep_.take(bytes); }

  /// Appends claimed rows. Throws Error (usage) when the journal cannot be written.
  void append(std::span<const Observation* const> rows);

  /// Writes the sketches of rows that will be appended, numbered from the next one, so that no row
  /// is ever without its own. The first ones create the file. Throws Error (usage) on failure.
  void write_sketches(SketchesOfStep sketches);

  /// Stores the value of a row: its row-major bytes.
  void keep(const Observation& row, std::vector<std::byte> bytes);

  /// Writes the snapshots and the step's index entry. The step continues: the next `finish` or
  /// `begin_step` writes later observations. Throws Error (usage) on failure; it may be called
  /// again.
  void finish();

  /// Rows of the journal.
  std::int64_t rows() const { return rows_; }

 private:
  std::filesystem::path folder_;
  int rank_;
  std::string identity_;
  KeepPolicy keep_;
  std::int64_t segment_rows_;
  JournalWriter journal_;
  std::int64_t rows_ = 0;
  std::int64_t rows_before_segment_ = 0;
  std::int64_t rows_before_step_ = 0;
  std::int64_t step_ = 0;
  /// The last step of each identity. It stays, because what each step allocated and kept until the
  /// next one would split the job's own free memory.
  std::unordered_map<std::string, std::int64_t> claimed_;
  std::map<std::string, SnapshotTensor> kept_;  ///< of this step
  std::optional<SketchWriter> sketch_file_;
  bool all_written_ = true;
};

}  // namespace lockstep
