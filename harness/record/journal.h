#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/appended_file.h"
#include "harness/record/observation.h"
#include "harness/record/step_index.h"
#include "harness/record/tensor_cells.h"
#include "harness/record/tensor_table.h"
#include "reports/base/csv_text.h"
#include "reports/base/regular_file.h"

namespace lockstep {

/// The journal of a rank in the folder of its cell.
std::filesystem::path journal_file(const std::filesystem::path& folder, int rank);

/// Append-only record of what one rank observed: rows in a CSV file, the tensors that they refer to
/// in a table beside it, and an index of its steps. Every row is written in full by one write, so
/// that a rank that is killed leaves whole rows and at most one torn one. One thread at a time.
class JournalWriter {
 public:
  /// Creates the files with their headers and, in front, the definition of the digests and
  /// `identity`, which says who writes them (empty: it is not said). Throws Error (usage) when one
  /// exists or cannot be made.
  explicit JournalWriter(const std::filesystem::path& path, std::string_view identity = "");
  ~JournalWriter();  ///< finishes; drops errors
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  /// Appends one row; `seq` is not written. Requires: steps ascend, and within a step the
  /// micro-batches of a tensor. Throws Error (usage) when the
  /// disk is full or the file is gone.
  void append(const Observation& observation);

  /// Writes the entry of the last step, which may go on: its next entry replaces this one. Throws
  /// Error (usage) when the disk is full.
  void finish();

 private:
  AppendedFile file_;
  TensorTableWriter tensors_;
  StepIndexWriter index_;
  std::vector<TensorIdentity> identities_;  ///< by number of the tensor
  std::uint64_t size_ = 0;                  ///< of the file, in bytes
  IndexedStep step_;                        ///< that is written; without rows: none
  bool is_finished_ = true;                 ///< its entry has all its rows
};

/// Whether a journal was begun: a rank that was killed at once leaves an empty file, or none.
/// Throws Error (usage) for what is no file that is read.
bool has_journal(const std::filesystem::path& path);

/// The first two lines of a journal.
struct JournalHeader {
  bool is_of_first_kind = false;  ///< each row holds all that its tensor is
  std::string digest;             ///< definition of its digests: "lockstep-2"
  std::string identity;           ///< `process_identity` of who wrote it; empty: not known
  std::uint64_t bytes = 0;        ///< of both lines
  std::int64_t lines = 0;
};

/// Throws Error (usage) where it is malformed.
JournalHeader read_journal_header(const std::filesystem::path& path);

/// A step of a journal.
struct JournalStep : IndexedStep {
  std::int64_t first_seq = 0;  ///< of its first row
  std::int64_t line = 0;       ///< of its first row, from 1
  bool is_indexed = false;     ///< known by the index, not by its rows
};

/// An entry of an index is not of the rows that are there, although it names their checksum.
class StaleIndex : public std::runtime_error {
 public:
  StaleIndex(std::filesystem::path journal, const std::string& fault)
      : std::runtime_error(fault), journal_(std::move(journal)) {}

  const std::filesystem::path& journal() const { return journal_; }

 private:
  std::filesystem::path journal_;
};

/// What the index beside a journal is good for, once each entry was seen to have the checksum of
/// the rows that are there:
///   believed   ranks that agree by it agree
///   checked    the same, and all rows are read, to compare them with the entries
///   ignored    nothing: claims see all rows
enum class IndexUse { believed, checked, ignored };

/// A journal that is read step by step: no more of it is in memory than the rows of one, and no
/// file is open between two calls.
class JournalReader {
 public:
  /// Finds the steps: by the index, and by reading what the index does not have. Throws Error
  /// (usage) with file, line, column and what was expected; rows whose step goes back are
  /// malformed, in journals of older programs also those whose seq does not count on.
  explicit JournalReader(std::filesystem::path path, IndexUse use = IndexUse::believed)
      : JournalReader(path, read_journal_header(path), use) {}
  JournalReader(std::filesystem::path path, JournalHeader header, IndexUse use);

  const std::filesystem::path& path() const { return path_; }
  const std::string& identity() const { return header_.identity; }
  const std::string& digest() const { return header_.digest; }
  bool has_torn_tail() const { return has_torn_tail_; }  ///< the last row was torn and left out
  std::int64_t rows() const { return rows_; }
  const std::vector<JournalStep>& steps() const { return steps_; }  ///< ascending
  /// All that was observed, in any step, in the order in which it was first.
  const std::vector<ObservedTensor>& tensors() const { return tensors_; }

  /// Why the index was not believed: "an entry ..., found ..."; empty where it was, and where there
  /// is none.
  const std::string& index_fault() const { return index_fault_; }

  /// The rows of one of `steps()`. Throws Error (usage) where the file is not what it was, and
  /// StaleIndex where they are not what the index says.
  std::vector<Observation> read(const JournalStep& step) const;

 private:
  class Scan;

  const CsvKind& kind() const;
  void read_table();
  void read_index(std::uint64_t begin, std::int64_t line);
  void require_rows_of(const IndexedStep& step, std::uint64_t begin,
                       const RegularFile& journal) const;
  std::size_t column_of_step() const;
  RecordRow cells_of(const CsvRow& row) const;
  Observation observation_in(const CsvRow& row, std::int64_t seq) const;
  void require_step(const JournalStep& step, const Observation& observation,
                    const CsvRow& row) const;
  StaleIndex stale(const JournalStep& step, std::string_view fault) const;
  std::size_t number_of(const CsvRow& row) const;

  std::filesystem::path path_;
  JournalHeader header_;
  std::string index_fault_;
  bool has_torn_tail_ = false;
  std::int64_t rows_ = 0;
  std::vector<JournalStep> steps_;
  std::vector<ObservedTensor> tensors_;
  std::vector<TensorIdentity> identities_;  ///< by number of the tensor
};

}  // namespace lockstep
