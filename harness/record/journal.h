#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
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

/// Append-only record of one rank's observations: rows in a CSV file, their tensors in a table next
/// to it, and an index of its steps. Rows are written from front to back, so a killed rank leaves
/// whole rows and at most one torn one. One thread at a time.
class JournalWriter {
 public:
  /// Creates the files and their headers. The headers hold the definition of the digests and
  /// `identity`, the writing process (empty: not given). Throws Error (usage) when a file exists or
  /// cannot be created.
  explicit JournalWriter(const std::filesystem::path& path, std::string_view identity = "");
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

 private:
  void begin_if_new(std::int64_t step);
  std::size_t number_of(const Observation& row);

  AppendedFile file_;
  TensorTableWriter tensors_;
  StepIndexWriter index_;
  std::vector<TensorIdentity> identities_;  ///< by number of the tensor
  std::uint64_t size_ = 0;                  ///< of the file, in bytes
  IndexedStep step_;                        ///< being written; no rows: none
  bool is_finished_ = true;                 ///< its entry covers all its rows
};

/// Whether a journal was begun. A rank that was killed at once leaves an empty file or none. Throws
/// Error (usage) if `path` is not a readable file.
bool has_journal(const std::filesystem::path& path);

/// The first two lines of a journal.
struct JournalHeader {
  bool is_of_first_kind = false;  ///< each row describes its tensor in full
  std::string digest;             ///< definition of its digests: "lockstep-2"
  std::string identity;           ///< `process_identity` of the writer; empty: unknown
  std::uint64_t bytes = 0;        ///< of both lines
  std::int64_t lines = 0;
};

/// Throws Error (usage) if it is malformed.
JournalHeader read_journal_header(const std::filesystem::path& path);

struct JournalStep : IndexedStep {
  std::int64_t first_seq = 0;  ///< of its first row
  std::int64_t line = 0;       ///< of its first row, from 1
  bool is_indexed = false;     ///< found through the index, not by its rows
};

/// An index entry does not belong to the rows in the file, although it names their checksum.
class StaleIndex : public std::runtime_error {
 public:
  StaleIndex(std::filesystem::path journal, const std::string& fault)
      : std::runtime_error(fault), journal_(std::move(journal)) {}

  const std::filesystem::path& journal() const { return journal_; }

 private:
  std::filesystem::path journal_;
};

/// How far the index next to a journal is used, after each entry's checksum was compared with its
/// rows:
///   believed   ranks whose entries agree are taken to agree
///   checked    the same, and all rows are read and compared with the entries
///   ignored    not used: claims see all rows
enum class IndexUse { believed, checked, ignored };

/// Reads a journal step by step. Only the rows of one step are in memory, and no file is open
/// between two calls.
class JournalReader {
 public:
  /// Finds the steps through the index and reads the rows of steps that the index lacks. Throws
  /// Error (usage) with file, line, column and the expected content. Rows whose step decreases are
  /// malformed; in journals of older programs, so are rows whose seq skips a number.
  explicit JournalReader(std::filesystem::path path, IndexUse use = IndexUse::believed)
      : JournalReader(path, read_journal_header(path), use) {}
  JournalReader(std::filesystem::path path, JournalHeader header, IndexUse use);

  const std::filesystem::path& path() const { return path_; }
  const std::string& identity() const { return header_.identity; }
  const std::string& digest() const { return header_.digest; }
  bool has_torn_tail() const { return has_torn_tail_; }  ///< the last row was torn and skipped
  std::int64_t rows() const { return rows_; }
  const std::vector<JournalStep>& steps() const { return steps_; }  ///< ascending
  /// Every tensor observed in any step, in the order of its first observation.
  const std::vector<ObservedTensor>& tensors() const { return tensors_; }

  /// Why the index was rejected: "an entry ..., found ..."; empty if it was accepted or is missing.
  const std::string& index_fault() const { return index_fault_; }

  /// The rows of one of `steps()`. Throws Error (usage) if the file has changed, and StaleIndex if
  /// its rows contradict the index.
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
