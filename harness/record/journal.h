#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/observation.h"
#include "reports/base/csv_text.h"

namespace lockstep {

/// The journal of a rank in the folder of its cell.
std::filesystem::path journal_file(const std::filesystem::path& folder, int rank);

/// Append-only CSV file of observations of one rank. Every row is written in full by one write, so
/// that a rank that is killed leaves whole rows and at most one torn one. One thread at a time.
class JournalWriter {
 public:
  /// Creates the file with its header and, in front, the definition of its digests and `identity`,
  /// which says who writes it (empty: it is not said). Throws Error (usage) when the file exists or
  /// cannot be made.
  explicit JournalWriter(const std::filesystem::path& path, std::string_view identity = "");
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Appends one row. Throws Error (usage) when the disk is full or the file is gone.
  void append(const Observation& observation);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Whether a journal was begun: a rank that was killed at once leaves an empty file, or none.
/// Throws Error (usage) for what is no file that is read.
bool has_journal(const std::filesystem::path& path);

/// The rows of one step of a journal, one behind the other.
struct JournalStep {
  std::int64_t step = 0;
  std::int64_t first_seq = 0;  ///< of its first row
  std::int64_t rows = 0;
  bool has_values = false;  ///< a row is of a tensor that can be compared
  CsvPart part;             ///< where they are
};

/// A journal that is read step by step: no more of it is in memory than the rows of one, and no
/// file is open between two calls.
class JournalReader {
 public:
  /// Reads the journal from front to back and notes where each step is. Throws Error (usage) with
  /// file, line, column and what was expected; rows whose seq does not count on, and those whose
  /// step goes back, are malformed.
  explicit JournalReader(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// `process_identity` of who wrote it; empty: not known.
  const std::string& identity() const { return identity_; }
  /// Definition of its digests: "lockstep-2".
  const std::string& digest() const { return digest_; }
  bool has_torn_tail() const { return has_torn_tail_; }  ///< the last row was torn and left out
  std::int64_t rows() const { return rows_; }
  const std::vector<JournalStep>& steps() const { return steps_; }  ///< ascending
  /// All that was observed, in any step; the reader forgets it.
  std::set<ObservedTensor> take_tensors() { return std::exchange(tensors_, {}); }

  /// The rows of one of `steps()`. Throws Error (usage) where the file is not what it was.
  std::vector<Observation> read(const JournalStep& step) const;

 private:
  void note(const Observation& observation, const CsvRow& row);

  std::filesystem::path path_;
  std::string identity_;
  std::string digest_;
  bool has_torn_tail_ = false;
  std::int64_t rows_ = 0;
  std::vector<JournalStep> steps_;
  std::set<ObservedTensor> tensors_;
};

}  // namespace lockstep
