#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/observation.h"
#include "harness/record/step_index.h"
#include "harness/record/tensor_table.h"

namespace lockstep {

/// Append-only record of one rank's observations: rows in a CSV file, or in several segments of it,
/// their tensors in a table next to it, and an index of its steps. Rows are written from front to
/// back, so a killed rank leaves whole rows and at most one torn one. One thread at a time.
class JournalWriter {
 public:
  /// Creates the files and their headers. The headers hold the definition of the digests and
  /// `identity`, the writing process (empty: not given). Throws Error (usage) when a file exists or
  /// cannot be created.
  explicit JournalWriter(std::filesystem::path path, std::string identity = "");
  ~JournalWriter();  ///< finishes; drops errors
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Appends rows of one step by one write; `seq` is not written. Requires: steps ascend, as do the
  /// micro-batches of a tensor within a step. Throws Error (usage) when the disk is full or the
  /// file is gone.
  void append(std::span<const Observation* const> rows);

  void append(const Observation& row) { append(std::array{&row}); }

  /// Writes the index entry of the last step. The step may continue: its next entry replaces this
  /// one. Throws Error (usage) when the disk is full.
  void finish();

  /// Ends the file; rows of later steps go to a new one. The last step does not continue. Throws
  /// Error (usage) when the file exists or cannot be created.
  void begin_segment();

  int segment() const { return segment_; }  ///< from 1

 private:
  void begin_file();
  void begin_if_new(std::int64_t step);
  std::size_t number_of(const Observation& row);

  std::filesystem::path path_;
  std::string identity_;
  int segment_ = 1;
  std::optional<AppendedFile> file_;
  TensorTableWriter tensors_;
  StepIndexWriter index_;
  std::vector<TensorIdentity> identities_;  ///< by number of the tensor
  std::uint64_t size_ = 0;                  ///< of the file, in bytes
  IndexedStep step_;                        ///< being written; no rows: none
  bool is_finished_ = true;                 ///< its entry covers all its rows
};

}  // namespace lockstep
