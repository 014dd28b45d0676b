#include "harness/record/journal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

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

struct Column {
  enum : std::size_t {
    kStep,
    kMicroBatch,
    kTensor,
    kDigest,
    kNorm,
    kMinimum,
    kMaximum,
    kNonFinite
  };
};

const CsvKind& kind_of_journals() {
  static const std::vector<std::string_view> columns{
      "step", "micro_batch", "tensor", "digest", "norm", "minimum", "maximum", "non_finite"};
  static const CsvKind kind{columns, TornTail::is_left_out, kLargestJournal, true};
  return kind;
}

/// The first line names the version of a journal and the definition of the digests: "journal 2,
/// digest lockstep-2, rank 1 of ...". Journals without a version hold the whole tensor in each row.
/// Those without a definition use the first one.
constexpr std::string_view kJournalRemark = "journal 2, ";
constexpr std::string_view kAnyJournalRemark = "# journal ";
constexpr std::string_view kDigestRemark = "digest ";
constexpr std::string_view kBeforeIdentity = ", ";
constexpr std::string_view kFirstDigest = "lockstep-1";

/// Columns of a version-1 row: counters, its tensor, and the observed values.
namespace first_kind {

struct Column {
  enum : std::size_t {
    kSeq,
    kStep,
    kMicroBatch,
    kTensor,
    kDigest = kTensor + 9,
    kNorm,
    kMinimum,
    kMaximum,
    kNonFinite
  };
};

/// Written with records of 1.x.
constexpr std::array kRenamed{RenamedColumn{"phase", "point"},
                              RenamedColumn{"digest", "fingerprint"}};

const CsvKind& kind() {
  static const std::vector<std::string_view> columns = [] {
    std::vector<std::string_view> all{"seq", "step", "micro_batch"};
    all.insert(all.end(), tensor_columns().begin(), tensor_columns().end());
    all.insert(all.end(), {"digest", "norm", "minimum", "maximum", "non_finite"});
    return all;
  }();
  static const CsvKind kind{columns, TornTail::is_left_out, kLargestJournal, true, kRenamed};
  return kind;
}

}  // namespace first_kind

/// Observed values of a tensor. `begin`: column of the digest.
void read_values(const RecordRow& row, std::size_t begin, bool is_whole, Observation& observation) {
  if (observation.not_comparable.empty()) observation.digest = row.digest(begin);
  observation.statistics.norm = row.number(begin + 1);
  observation.statistics.minimum = row.extreme(begin + 2, is_whole);
  observation.statistics.maximum = row.extreme(begin + 3, is_whole);
  observation.statistics.non_finite = row.whole(begin + 4, 0);
}

std::string row_of(const Observation& o, std::size_t tensor) {
  const Statistics& s = o.statistics;
  return fmt::format("{},{},{},{},{},{},{},{}\n", o.step, o.micro_batch, tensor,
                     o.not_comparable.empty() ? to_text(o.digest) : "", exact_decimal(s.norm),
                     to_text(s.minimum), to_text(s.maximum), s.non_finite);
}

Digest checksum_of(std::string_view bytes, std::uint64_t offset) {
  return digest_run(std::as_bytes(std::span(bytes)), offset);
}

/// Throws Error (usage) if the remark announces a definition but gives no name.
void read_remark(const std::filesystem::path& path, const std::string& remark,
                 JournalHeader& header) {
  std::string_view rest = remark;
  if (!header.is_of_first_kind) rest.remove_prefix(kJournalRemark.size());
  header.digest = kFirstDigest;
  header.identity = rest;
  if (!rest.starts_with(kDigestRemark)) return;
  rest.remove_prefix(kDigestRemark.size());
  const std::size_t end = std::min(rest.find(kBeforeIdentity), rest.size());
  header.digest = rest.substr(0, end);
  header.identity = rest.substr(std::min(end + kBeforeIdentity.size(), rest.size()));
  if (!header.digest.empty()) return;
  throw malformed(path.string(), 1, 0, "the name of the digests' definition", remark);
}

/// Whether a journal is of the current version. Throws Error (usage) for any other version number.
bool is_of_second_kind(const std::filesystem::path& path) {
  const RegularFile file(path, kLargestJournal);
  const std::string today = fmt::format("# {}", kJournalRemark);
  const std::string begin = file.read(0, std::min<std::uint64_t>(file.size(), today.size()));
  if (begin == today) return true;
  if (!begin.starts_with(kAnyJournalRemark)) return false;
  throw malformed(path.string(), 1, 0, "journal version 2, or an older journal", begin);
}

}  // namespace

JournalWriter::JournalWriter(const std::filesystem::path& path, std::string_view identity)
    : file_(path), tensors_(tensor_table_file(path), identity), index_(index_file(path), identity) {
  const std::string header = fmt::format("# {}{}{}{}{}\n{}\n", kJournalRemark, kDigestRemark,
                                         kDigestName, identity.empty() ? "" : kBeforeIdentity,
                                         identity, fmt::join(kind_of_journals().columns, ","));
  file_.append(header);
  size_ = header.size();
}

JournalWriter::~JournalWriter() {
  try {
    finish();
  } catch (const Error&) {
    // A reader finds the step by its rows.
  }
}

void JournalWriter::append(std::span<const Observation* const> rows) {
  if (rows.empty()) return;
  begin_if_new(rows.front()->step);
  std::string text;
  std::vector<std::size_t> numbers;
  numbers.reserve(rows.size());
  for (const Observation* row : rows) {
    numbers.push_back(number_of(*row));
    text += row_of(*row, numbers.back());
  }
  file_.append(text);
  step_.checksum += checksum_of(text, step_.bytes);
  step_.bytes += text.size();
  size_ += text.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    add(identities_[numbers[i]], rows[i]->micro_batch, rows[i]->digest,
        rows[i]->statistics.non_finite, step_.summary);
  }
  is_finished_ = false;
}

void JournalWriter::begin_if_new(std::int64_t step) {
  if (step == step_.step) return;
  finish();
  step_ = {};
  step_.step = step;
  step_.offset = size_;
}

std::size_t JournalWriter::number_of(const Observation& row) {
  const std::size_t number = tensors_.number_of(row);
  if (number == identities_.size()) identities_.push_back(identity_of(row));
  return number;
}

void JournalWriter::finish() {
  if (is_finished_) return;
  index_.append(step_);
  is_finished_ = true;
}

bool has_journal(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && RegularFile(path, kLargestJournal).size() > 0;
}

JournalHeader read_journal_header(const std::filesystem::path& path) {
  JournalHeader header;
  header.is_of_first_kind = !is_of_second_kind(path);
  const CsvFrame frame =
      read_csv_header(path, header.is_of_first_kind ? first_kind::kind() : kind_of_journals());
  read_remark(path, frame.remark, header);
  header.bytes = frame.end;
  header.lines = frame.lines;
  return header;
}

/// Finds steps in rows read from front to back.
class JournalReader::Scan {
 public:
  explicit Scan(JournalReader& reader) : reader_(reader) {}

  void add(const CsvRow& row) {
    const Observation observation = reader_.observation_in(row, reader_.rows_);
    const std::size_t tensor = number_of(row, observation);
    std::vector<JournalStep>& steps = reader_.steps_;
    if (steps.empty() || steps.back().step != observation.step || !has_begun_) {
      begin(row, observation.step);
    }
    ++reader_.rows_;
    lockstep::add(reader_.identities_[tensor], observation.micro_batch, observation.digest,
                  observation.statistics.non_finite, steps.back().summary);
  }

  void end(std::uint64_t offset) {
    if (has_begun_) reader_.steps_.back().bytes = offset - reader_.steps_.back().offset;
  }

 private:
  void begin(const CsvRow& row, std::int64_t step) {
    std::vector<JournalStep>& steps = reader_.steps_;
    const std::int64_t last = steps.empty() ? 0 : steps.back().step;
    if (step <= last) {
      throw reader_.cells_of(row).refusal(reader_.column_of_step(),
                                          fmt::format("at least {} as 'step'", last));
    }
    end(row.offset);
    has_begun_ = true;
    JournalStep& begun = steps.emplace_back();
    begun.step = step;
    begun.offset = row.offset;
    begun.first_seq = reader_.rows_;
    begun.line = row.line;
  }

  /// In a journal of version 1, numbers follow the order of first rows.
  std::size_t number_of(const CsvRow& row, const ObservedTensor& tensor) {
    if (!reader_.header_.is_of_first_kind) return reader_.number_of(row);
    const auto [known, is_new] = numbers_.try_emplace(tensor, reader_.tensors_.size());
    if (is_new) {
      reader_.tensors_.push_back(tensor);
      reader_.identities_.push_back(identity_of(tensor));
    }
    return known->second;
  }

  JournalReader& reader_;
  bool has_begun_ = false;
  std::map<ObservedTensor, std::size_t> numbers_;
};

JournalReader::JournalReader(std::filesystem::path path, JournalHeader header, IndexUse use)
    : path_(std::move(path)), header_(std::move(header)) {
  std::uint64_t offset = header_.bytes;
  if (!header_.is_of_first_kind) {
    read_table();
    if (use != IndexUse::ignored) read_index(header_.bytes, header_.lines + 1);
    if (!steps_.empty()) offset = steps_.back().offset + steps_.back().bytes;
  }
  const std::uint64_t size = RegularFile(path_, kLargestJournal).size();
  if (size == offset) return;
  if (!steps_.empty()) {  // the last one may have continued after its entry
    offset = steps_.back().offset;
    rows_ = steps_.back().first_seq;
    steps_.pop_back();
  }
  Scan scan(*this);
  const CsvFrame rest =
      read_csv(path_, kind(), CsvPart{offset, size - offset, header_.lines + 1 + rows_},
               [&](const CsvRow& row) { scan.add(row); });
  scan.end(rest.end);
  has_torn_tail_ = rest.torn_tail;
}

const CsvKind& JournalReader::kind() const {
  return header_.is_of_first_kind ? first_kind::kind() : kind_of_journals();
}

/// A table of another rank would give rows wrong names.
void JournalReader::read_table() {
  const std::filesystem::path file = tensor_table_file(path_);
  TensorTable table = read_tensor_table(file);
  if (table.identity != header_.identity) {
    throw malformed(file.string(), 1, 0, "a table of " + header_.identity, table.identity);
  }
  tensors_ = std::move(table.tensors);
  for (const ObservedTensor& tensor : tensors_) identities_.push_back(identity_of(tensor));
}

/// Takes the steps of the index if every entry belongs to the rows in the file. `begin` and `line`
/// are those of the first row.
void JournalReader::read_index(std::uint64_t begin, std::int64_t line) {
  const std::filesystem::path file = index_file(path_);
  try {
    if (!std::filesystem::exists(file)) return;
    const StepIndex index = read_step_index(file);
    if (index.identity != header_.identity) {
      throw malformed(file.string(), 0, 0, "an index of " + header_.identity, index.identity);
    }
    const RegularFile journal(path_, kLargestJournal);
    for (const IndexedStep& step : index.steps) {
      require_rows_of(step, begin, journal);
      begin += step.bytes;
      JournalStep& taken = steps_.emplace_back();
      static_cast<IndexedStep&>(taken) = step;
      taken.first_seq = rows_;
      taken.line = line + rows_;
      taken.is_indexed = true;
      rows_ += step.summary.rows;
    }
  } catch (const Error& error) {
    index_fault_ = error.what();
    steps_.clear();
    rows_ = 0;
  }
}

/// Throws Error (usage) unless the rows of a step begin at `begin` and have its checksum.
void JournalReader::require_rows_of(const IndexedStep& step, std::uint64_t begin,
                                    const RegularFile& journal) const {
  constexpr std::uint64_t kShortestRow = 12;
  const auto refuse = [&](std::string_view expected, std::string_view found) {
    throw malformed(index_file(path_).string(), 0, 0, expected,
                    fmt::format("step {} {}", step.step, found));
  };
  const std::int64_t last = steps_.empty() ? 0 : steps_.back().step;
  if (step.step <= last) refuse(fmt::format("a step after {}", last), "behind it");
  if (step.offset != begin) {
    refuse(fmt::format("a step whose rows begin at byte {}", begin),
           fmt::format("at byte {}", step.offset));
  }
  const std::uint64_t left = journal.size() - begin;
  if (step.bytes > left) {
    refuse(fmt::format("a step of at most {} bytes, which are left of the journal", left),
           fmt::format("of {}", step.bytes));
  }
  const bool has_rows = step.summary.rows > 0 && step.summary.non_finite >= 0 &&
                        static_cast<std::uint64_t>(step.summary.rows) <= step.bytes / kShortestRow;
  if (!has_rows) {
    refuse("a step with rows, in as many bytes as they take",
           fmt::format("with {} in {} bytes", step.summary.rows, step.bytes));
  }
  constexpr std::uint64_t kChunk = 4 * kMebibyte;
  Digest found;
  for (std::uint64_t at = 0; at < step.bytes; at += kChunk) {
    const std::string bytes = journal.read(begin + at, std::min(kChunk, step.bytes - at));
    found += checksum_of(bytes, at);
  }
  if (found == step.checksum) return;
  throw malformed(path_.string(), 0, 0,
                  fmt::format("rows of step {} with the checksum {} of the index", step.step,
                              to_text(step.checksum)),
                  to_text(found));
}

std::size_t JournalReader::column_of_step() const {
  if (header_.is_of_first_kind) return first_kind::Column::kStep;
  return Column::kStep;
}

RecordRow JournalReader::cells_of(const CsvRow& row) const { return {row, path_, kind().columns}; }

/// Number, in the tensor table, of a row's tensor.
std::size_t JournalReader::number_of(const CsvRow& row) const {
  const RecordRow cells = cells_of(row);
  const auto number = static_cast<std::size_t>(cells.whole(Column::kTensor, 0));
  if (number < tensors_.size()) return number;
  throw cells.refusal(Column::kTensor, fmt::format("one of the {} tensors of {}", tensors_.size(),
                                                   tensor_table_file(path_).filename().string()));
}

/// The row with the number `seq`.
Observation JournalReader::observation_in(const CsvRow& row, std::int64_t seq) const {
  const RecordRow cells = cells_of(row);
  Observation observation;
  observation.seq = seq;
  if (header_.is_of_first_kind) {
    if (cells.whole(first_kind::Column::kSeq, 0) != seq) {
      throw cells.refusal(first_kind::Column::kSeq, fmt::format("{} as 'seq'", seq));
    }
    observation.step = cells.whole(first_kind::Column::kStep, 1);
    observation.micro_batch = cells.whole(first_kind::Column::kMicroBatch, 0);
    static_cast<ObservedTensor&>(observation) = cells.tensor(first_kind::Column::kTensor);
    read_values(cells, first_kind::Column::kDigest, is_of_whole_numbers(observation.dtype),
                observation);
    return observation;
  }
  observation.step = cells.whole(Column::kStep, 1);
  observation.micro_batch = cells.whole(Column::kMicroBatch, 0);
  const std::size_t number = number_of(row);
  static_cast<ObservedTensor&>(observation) = tensors_[number];
  read_values(cells, Column::kDigest, identities_[number].is_of_whole_numbers, observation);
  return observation;
}

std::vector<Observation> JournalReader::read(const JournalStep& step) const {
  std::vector<Observation> observations;
  observations.reserve(static_cast<std::size_t>(step.summary.rows));
  StepSummary found;
  std::vector<std::int64_t> micro_batches(tensors_.size(), -1);  // of the last row of each tensor
  read_csv(path_, kind(), CsvPart{step.offset, step.bytes, step.line}, [&](const CsvRow& row) {
    const auto seq = step.first_seq + static_cast<std::int64_t>(observations.size());
    const Observation& read = observations.emplace_back(observation_in(row, seq));
    require_step(step, read, row);
    if (header_.is_of_first_kind) {
      add(identity_of(read), read.micro_batch, read.digest, read.statistics.non_finite, found);
      return;
    }
    const std::size_t number = number_of(row);
    std::int64_t& last = micro_batches[number];
    if (read.micro_batch <= last) {
      throw cells_of(row).refusal(Column::kMicroBatch,
                                  fmt::format("more than {}, that of the tensor's last row", last));
    }
    last = read.micro_batch;
    add(identities_[number], read.micro_batch, read.digest, read.statistics.non_finite, found);
  });
  if (found == step.summary) return observations;
  if (step.is_indexed) throw stale(step, "is not of its rows");
  throw malformed(path_.string(), step.line, 0,
                  fmt::format("step {} as it was when the journal was opened", step.step),
                  "other rows");
}

void JournalReader::require_step(const JournalStep& step, const Observation& observation,
                                 const CsvRow& row) const {
  if (observation.step == step.step) return;
  if (step.is_indexed) throw stale(step, fmt::format("has rows of step {}", observation.step));
  throw cells_of(row).refusal(column_of_step(), fmt::format("{} as 'step'", step.step));
}

StaleIndex JournalReader::stale(const JournalStep& step, std::string_view fault) const {
  const std::string index = index_file(path_).filename().string();
  return {path_, fmt::format("{}: the entry of step {} {}; without the file all rows are read",
                             index, step.step, fault)};
}

}  // namespace lockstep
