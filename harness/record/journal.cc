#include "harness/record/journal.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "harness/record/file_digest.h"
#include "harness/record/journal_segments.h"
#include "harness/record/tensor_cells.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

std::string group_of_one(int rank) { return fmt::format("rank {}", rank); }

std::filesystem::path journal_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.csv", rank);
}

namespace {

/// Observed values of a tensor.
void read_values(const RecordRow& row, bool is_whole, Observation& observation) {
  using Column = JournalColumn;
  if (observation.not_comparable.empty()) observation.digest = row.digest(Column::kDigest);
  observation.statistics.norm = row.number(Column::kNorm);
  observation.statistics.minimum = row.extreme(Column::kMinimum, is_whole);
  observation.statistics.maximum = row.extreme(Column::kMaximum, is_whole);
  observation.statistics.non_finite = row.whole(Column::kNonFinite, 0);
}

}  // namespace

bool has_journal(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && RegularFile(path, kLargestJournal).size() > 0;
}

/// Finds steps in rows read from front to back.
class JournalReader::Scan {
 public:
  explicit Scan(JournalReader& reader) : reader_(reader) {}

  /// Reads the rows of a segment from `begin` on. Returns whether its last one was torn.
  bool read(const Position& begin) {
    segment_ = begin.segment;
    const Segment& segment = reader_.segments_[segment_];
    const CsvPart part{begin.offset, segment.size - begin.offset, begin.line};
    const CsvFrame rest =
        read_csv(segment.path, kind_of_journals(), part, [&](const CsvRow& row) { add(row); });
    end(rest.end);
    has_begun_ = false;
    return rest.torn_tail;
  }

 private:
  void add(const CsvRow& row) {
    const Observation observation = reader_.observation_in(row, reader_.rows_, segment_);
    const std::size_t tensor = reader_.number_of(row, segment_);
    std::vector<JournalStep>& steps = reader_.steps_;
    if (steps.empty() || steps.back().step != observation.step || !has_begun_) {
      begin(row, observation.step);
    }
    ++reader_.rows_;
    lockstep::add(reader_.tensors_[tensor]->identity, observation.micro_batch, observation.digest,
                  observation.statistics.non_finite, steps.back().summary);
  }

  void end(std::uint64_t offset) {
    if (has_begun_) reader_.steps_.back().bytes = offset - reader_.steps_.back().offset;
  }

  void begin(const CsvRow& row, std::int64_t step) {
    std::vector<JournalStep>& steps = reader_.steps_;
    const std::int64_t last = steps.empty() ? 0 : steps.back().step;
    if (step <= last) {
      // The step of the row before goes on, unless that lies in another segment.
      throw reader_.cells_of(row, segment_)
          .refusal(JournalColumn::kStep,
                   fmt::format("{} {} as 'step'", has_begun_ ? "at least" : "more than", last));
    }
    end(row.offset);
    has_begun_ = true;
    JournalStep& begun = steps.emplace_back();
    begun.step = step;
    begun.segment = segment_;
    begun.offset = row.offset;
    begun.first_seq = reader_.rows_;
    begun.line = row.line;
  }

  JournalReader& reader_;
  std::size_t segment_ = 0;
  bool has_begun_ = false;  ///< a step of this segment
};

JournalReader::JournalReader(std::filesystem::path path, JournalHeader header, IndexUse use,
                             std::shared_ptr<KnownTensors> known)
    : path_(std::move(path)), known_(std::move(known)) {
  // A rank that goes on writes a tensor, then its rows, then their entry in the index. Read the
  // other way round, nothing that an entry or a row refers to is missing.
  std::optional<StepIndex> index;
  if (use != IndexUse::ignored) index = load_index();
  const std::uint64_t size = RegularFile(path_, kLargestJournal).size();
  segments_.push_back({path_, std::move(header), size});
  find_segments();
  read_table();
  scan_from(index ? take_index(*index) : begin_of(0));
}

/// Empty: there is none, or it cannot be read.
std::optional<StepIndex> JournalReader::load_index() {
  const std::filesystem::path file = index_file(path_);
  try {
    if (std::filesystem::exists(file)) return read_step_index(file);
  } catch (const Error& error) {
    index_fault_ = error.what();
  }
  return std::nullopt;
}

/// A rank that is killed, or finds the disk full, may leave its last segment without a header.
void JournalReader::find_segments() {
  for (int number = 2;; ++number) {
    std::filesystem::path path = segment_file(path_, number);
    if (!std::filesystem::exists(path)) return;
    const std::uint64_t size = RegularFile(path, kLargestJournal).size();
    if (size < header().bytes_as_written()) return;
    JournalHeader found = read_journal_header(path);
    if (found.identity != identity()) {
      throw malformed(path.string(), 1, 0, "a segment of " + identity() + ", as the first one",
                      found.identity);
    }
    segments_.push_back({std::move(path), std::move(found), size});
  }
}

JournalReader::Position JournalReader::begin_of(std::size_t segment) const {
  const JournalHeader& begins = segments_[segment].header;
  return {segment, begins.bytes, begins.lines + 1};
}

/// Finds the steps that the index lacks.
void JournalReader::scan_from(Position begin) {
  Scan scan(*this);
  for (;;) {
    const Segment& segment = segments_[begin.segment];
    if (segment.size > begin.offset) {
      if (segment.header.is_thinned) misses_rows_ = true;
      has_torn_tail_ = scan.read(begin);
    }
    if (begin.segment + 1 == segments_.size()) return;
    begin = begin_of(begin.segment + 1);
  }
}

/// A table of another rank would give rows wrong names.
void JournalReader::read_table() {
  const std::filesystem::path file = tensor_table_file(path_);
  const TensorTable table = read_tensor_table(file);
  if (table.identity != identity()) {
    throw malformed(file.string(), 1, 0, "a table of " + identity(), table.identity);
  }
  tensors_.reserve(table.tensors.size());
  for (const ObservedTensor& tensor : table.tensors) tensors_.push_back(known_->of(tensor));
}

/// Finds the rows of index entries, which come in ascending order.
class JournalReader::IndexedRows {
 public:
  explicit IndexedRows(const JournalReader& reader) : reader_(reader) { open(0); }

  /// The rows of a step; empty if they were removed. Throws Error (usage) unless the rows at this
  /// place belong to the entry.
  std::optional<Position> find(const IndexedStep& step) {
    require_summary(step);
    // Each segment begins at the same place, and each but the last has a step.
    const bool is_first = step.offset == segment().header.bytes_as_written();
    if (is_first && has_step_) begin_next(step);
    has_step_ = true;
    last_ = step.step;
    if (segment().header.is_thinned && !begins_here(step)) {
      require_bytes(step, kLargestJournal);
      return std::nullopt;
    }
    require_rows(step);
    const Position found = at_;
    at_.offset += step.bytes;
    at_.line += step.summary.rows;
    return found;
  }

  /// Behind the rows that were found.
  const Position& end() const { return at_; }

 private:
  const Segment& segment() const { return reader_.segments_[at_.segment]; }

  void open(std::size_t number) {
    at_ = reader_.begin_of(number);
    file_.emplace(segment().path, kLargestJournal);
  }

  [[noreturn]] void refuse(const IndexedStep& step, std::string_view expected,
                           std::string_view found) const {
    throw malformed(index_file(reader_.path_).string(), 0, 0, expected,
                    fmt::format("step {} {}", step.step, found));
  }

  void require_summary(const IndexedStep& step) const {
    constexpr std::uint64_t kShortestRow = 12;
    if (step.step <= last_) refuse(step, fmt::format("a step after {}", last_), "behind it");
    const bool has_rows =
        step.summary.rows > 0 && step.summary.non_finite >= 0 &&
        static_cast<std::uint64_t>(step.summary.rows) <= step.bytes / kShortestRow;
    if (has_rows) return;
    refuse(step, "a step with rows, in as many bytes as they take",
           fmt::format("with {} in {} bytes", step.summary.rows, step.bytes));
  }

  void require_bytes(const IndexedStep& step, std::uint64_t left) const {
    if (step.bytes <= left) return;
    refuse(step, fmt::format("a step of at most {} bytes, which are left of the journal", left),
           fmt::format("of {}", step.bytes));
  }

  void begin_next(const IndexedStep& step) {
    if (at_.segment + 1 == reader_.segments_.size()) {
      refuse(step, "a step whose segment of the journal is there", "in a missing one");
    }
    if (at_.offset != segment().size) {
      refuse(step, fmt::format("a step at byte {} of {}", at_.offset, segment().path.string()),
             "in the next segment");
    }
    open(at_.segment + 1);
  }

  /// Whether the next row that is left is of this step.
  bool begins_here(const IndexedStep& step) const {
    const std::string number = fmt::format("{},", step.step);
    return segment().size - at_.offset >= number.size() &&
           file_->read(at_.offset, number.size()) == number;
  }

  void require_rows(const IndexedStep& step) const {
    if (!segment().header.is_thinned && step.offset != at_.offset) {
      refuse(step, fmt::format("a step whose rows begin at byte {}", at_.offset),
             fmt::format("at byte {}", step.offset));
    }
    require_bytes(step, segment().size - at_.offset);
    const Digest found = digest_of(*file_, at_.offset, step.bytes);
    if (is_intact(found, step.checksum)) return;
    throw malformed(segment().path.string(), 0, 0,
                    fmt::format("rows of step {} with the checksum {} of the index", step.step,
                                to_text(step.checksum)),
                    to_text(found));
  }

  const JournalReader& reader_;
  std::optional<RegularFile> file_;
  Position at_;
  bool has_step_ = false;  ///< of this segment
  std::int64_t last_ = 0;
};

/// Takes the steps of the index if every entry belongs to the rows in the files, or these were
/// removed. Returns where the rows begin that it does not cover.
JournalReader::Position JournalReader::take_index(const StepIndex& index) {
  const std::filesystem::path file = index_file(path_);
  try {
    if (index.identity != identity()) {
      throw malformed(file.string(), 0, 0, "an index of " + identity(), index.identity);
    }
    IndexedRows rows(*this);
    for (const IndexedStep& step : index.steps) {
      if (const auto begin = rows.find(step)) {
        JournalStep& taken = steps_.emplace_back();
        static_cast<IndexedStep&>(taken) = step;
        taken.segment = begin->segment;
        taken.offset = begin->offset;
        taken.first_seq = rows_;
        taken.line = begin->line;
        taken.is_indexed = true;
      } else {
        thinned_steps_.push_back(step);
      }
      rows_ += step.summary.rows;
    }
    const Position& end = rows.end();
    const Segment& last = segments_[end.segment];
    if (end.offset == last.size) return end;
    if (last.header.is_thinned) {
      throw malformed(last.path.string(), end.line, 0,
                      "rows of steps in the index, in a segment "
                      "from which others were removed",
                      "rows of no such step");
    }
    if (steps_.empty() || steps_.back().segment != end.segment) return end;
    // The last step may have continued after its entry.
    const JournalStep open = steps_.back();
    steps_.pop_back();
    rows_ = open.first_seq;
    return {open.segment, open.offset, open.line};
  } catch (const Error& error) {
    index_fault_ = error.what();
    steps_.clear();
    thinned_steps_.clear();
    rows_ = 0;
    return begin_of(0);
  }
}

RecordRow JournalReader::cells_of(const CsvRow& row, std::size_t segment) const {
  return {row, segments_[segment].path, kind_of_journals().columns};
}

/// Number, in the tensor table, of a row's tensor.
std::size_t JournalReader::number_of(const CsvRow& row, std::size_t segment) const {
  const RecordRow cells = cells_of(row, segment);
  const auto number = static_cast<std::size_t>(cells.whole(JournalColumn::kTensor, 0));
  if (number < tensors_.size()) return number;
  throw cells.refusal(JournalColumn::kTensor,
                      fmt::format("one of the {} tensors of {}", tensors_.size(),
                                  tensor_table_file(path_).filename().string()));
}

/// The row with the number `seq`.
Observation JournalReader::observation_in(const CsvRow& row, std::int64_t seq,
                                          std::size_t segment) const {
  const RecordRow cells = cells_of(row, segment);
  Observation observation;
  observation.seq = seq;
  observation.step = cells.whole(JournalColumn::kStep, 1);
  observation.micro_batch = cells.whole(JournalColumn::kMicroBatch, 0);
  const std::size_t number = number_of(row, segment);
  static_cast<ObservedTensor&>(observation) = tensors_[number]->tensor;
  read_values(cells, tensors_[number]->identity.is_of_whole_numbers, observation);
  return observation;
}

/// `see`: takes an observation and its tensor.
template <class See>
void JournalReader::for_each_row(const JournalStep& step, const See& see) const {
  StepSummary found;
  std::vector<std::int64_t> micro_batches(tensors_.size(), -1);  // of the last row of each tensor
  read_csv(file_of(step), kind_of_journals(), CsvPart{step.offset, step.bytes, step.line},
           [&](const CsvRow& row) {
             const Observation read =
                 observation_in(row, step.first_seq + found.rows, step.segment);
             require_step(step, read, row);
             const std::size_t number = number_of(row, step.segment);
             std::int64_t& last = micro_batches[number];
             if (read.micro_batch <= last) {
               throw cells_of(row, step.segment)
                   .refusal(JournalColumn::kMicroBatch,
                            fmt::format("more than {}, that of the tensor's last row", last));
             }
             last = read.micro_batch;
             add(tensors_[number]->identity, read.micro_batch, read.digest,
                 read.statistics.non_finite, found);
             see(read, *tensors_[number]);
           });
  if (found == step.summary) return;
  if (step.is_indexed) throw stale(step, "is not of its rows");
  throw malformed(file_of(step).string(), step.line, 0,
                  fmt::format("step {} as it was when the journal was opened", step.step),
                  "other rows");
}

std::vector<Observation> JournalReader::read(const JournalStep& step) const {
  std::vector<Observation> observations;
  observations.reserve(static_cast<std::size_t>(step.summary.rows));
  for_each_row(step,
               [&](const Observation& one, const KnownTensor&) { observations.push_back(one); });
  return observations;
}

std::vector<SeenTensor> JournalReader::read_tensors(const JournalStep& step) const {
  std::vector<SeenTensor> tensors;
  tensors.reserve(static_cast<std::size_t>(step.summary.rows));
  for_each_row(step, [&](const Observation& one, const KnownTensor& tensor) {
    tensors.push_back({&tensor, one.micro_batch});
  });
  return tensors;
}

void JournalReader::require_step(const JournalStep& step, const Observation& observation,
                                 const CsvRow& row) const {
  if (observation.step == step.step) return;
  if (step.is_indexed) throw stale(step, fmt::format("has rows of step {}", observation.step));
  throw cells_of(row, step.segment)
      .refusal(JournalColumn::kStep, fmt::format("{} as 'step'", step.step));
}

StaleIndex JournalReader::stale(const JournalStep& step, std::string_view fault) const {
  const std::string index = index_file(path_).filename().string();
  return {path_, fmt::format("{}: the entry of step {} {}; without the file all rows are read",
                             index, step.step, fault)};
}

}  // namespace lockstep
