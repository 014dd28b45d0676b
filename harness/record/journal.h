#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/record/journal_format.h"
#include "harness/record/observation.h"
#include "harness/record/step_index.h"
#include "harness/record/tensor_cells.h"
#include "harness/record/tensor_table.h"
#include "reports/base/csv_text.h"
#include "reports/base/regular_file.h"

namespace lockstep {

/// The journal of a rank in the folder of its cell.
std::filesystem::path journal_file(const std::filesystem::path& folder, int rank);

/// Whether a journal was begun. A rank that was killed at once leaves an empty file or none. Throws
/// Error (usage) if `path` is not a readable file.
bool has_journal(const std::filesystem::path& path);

/// `offset` is that of its rows in their file.
struct JournalStep : IndexedStep {
  std::size_t segment = 0;     ///< of the journal's files, from 0
  std::int64_t first_seq = 0;  ///< of its first row
  std::int64_t line = 0;       ///< of its first row, from 1
  bool is_indexed = false;     ///< found through the index, not by its rows
};

/// A row without its value.
struct SeenTensor {
  const KnownTensor* tensor = nullptr;
  std::int64_t micro_batch = 0;
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

/// Reads a journal step by step, with all of its segments. Only the rows of one step are in memory,
/// and no file is open between two calls.
class JournalReader {
 public:
  /// Finds the steps through the index and reads the rows of steps that the index lacks. Throws
  /// Error (usage) with file, line, column and the expected content. Rows whose step decreases are
  /// malformed.
  explicit JournalReader(const std::filesystem::path& path, IndexUse use = IndexUse::believed)
      : JournalReader(path, read_journal_header(path), use, std::make_shared<KnownTensors>()) {}
  /// `known`: the tensors of all readers of an execution.
  JournalReader(std::filesystem::path path, JournalHeader header, IndexUse use,
                std::shared_ptr<KnownTensors> known);

  const std::filesystem::path& path() const { return path_; }
  const std::string& identity() const { return header().identity; }
  bool has_torn_tail() const { return has_torn_tail_; }  ///< the last row was torn and skipped
  std::int64_t rows() const { return rows_; }            ///< as written, removed ones included
  /// Whether `rows` misses removed rows, since no index counts them.
  bool misses_rows() const { return misses_rows_; }
  const std::vector<JournalStep>& steps() const { return steps_; }  ///< ascending, with rows
  /// Steps whose rows were removed: their entries in the index. Ascending.
  const std::vector<IndexedStep>& thinned_steps() const { return thinned_steps_; }
  /// Every tensor observed in any step, in the order of its first observation.
  const std::vector<const KnownTensor*>& tensors() const { return tensors_; }

  std::size_t segments() const { return segments_.size(); }  ///< files of rows
  /// The file that holds the rows of a step.
  const std::filesystem::path& file_of(const JournalStep& step) const {
    return segments_[step.segment].path;
  }

  /// Why the index was rejected: "an entry ..., found ..."; empty if it was accepted or is missing.
  const std::string& index_fault() const { return index_fault_; }

  /// The rows of one of `steps()`. Throws Error (usage) if the file has changed, and StaleIndex if
  /// its rows contradict the index.
  std::vector<Observation> read(const JournalStep& step) const;

  /// The same without the values, for steps of which these are known to agree with those of others.
  std::vector<SeenTensor> read_tensors(const JournalStep& step) const;

 private:
  class Scan;

  /// A file of the journal, as it was found.
  struct Segment {
    std::filesystem::path path;
    JournalHeader header;
    std::uint64_t size = 0;  ///< in bytes
  };

  /// Where rows begin.
  struct Position {
    std::size_t segment = 0;
    std::uint64_t offset = 0;
    std::int64_t line = 0;
  };

  const JournalHeader& header() const { return segments_.front().header; }
  void find_segments();
  Position begin_of(std::size_t segment) const;
  void read_table();
  std::optional<StepIndex> load_index();
  Position take_index(const StepIndex& index);
  class IndexedRows;
  void scan_from(Position begin);
  RecordRow cells_of(const CsvRow& row, std::size_t segment) const;
  Observation observation_in(const CsvRow& row, std::int64_t seq, std::size_t segment) const;
  template <class See>
  void for_each_row(const JournalStep& step, const See& see) const;
  void require_step(const JournalStep& step, const Observation& observation,
                    const CsvRow& row) const;
  StaleIndex stale(const JournalStep& step, std::string_view fault) const;
  std::size_t number_of(const CsvRow& row, std::size_t segment) const;

  std::filesystem::path path_;
  std::vector<Segment> segments_;  ///< at least the first
  std::string index_fault_;
  bool has_torn_tail_ = false;
  bool misses_rows_ = false;
  std::int64_t rows_ = 0;
  std::vector<JournalStep> steps_;
  std::vector<IndexedStep> thinned_steps_;
  std::shared_ptr<KnownTensors> known_;
  std::vector<const KnownTensor*> tensors_;  ///< by number, all of `known_`
};

}  // namespace lockstep
