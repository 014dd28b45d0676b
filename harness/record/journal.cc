#include "harness/record/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "harness/record/shard_runs.h"
#include "harness/record/whole_file.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

std::string group_of_one(int rank) { return "rank " + std::to_string(rank); }

std::filesystem::path journal_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.csv", rank);
}

namespace {

enum Column : std::size_t {
  kSeq,
  kStep,
  kMicroBatch,
  kPhase,
  kKind,
  kName,
  kDType,
  kGlobalShape,
  kOffset,
  kLocalShape,
  kReplicaGroup,
  kNotComparable,
  kDigest,
  kNorm,
  kMinimum,
  kMaximum,
  kNonFinite
};

/// Journals written beside records of 1.x have it.
constexpr std::array kRenamedColumns{RenamedColumn{"phase", "point"},
                                     RenamedColumn{"digest", "fingerprint"}};

/// The first line says by which definition the digests are: "digest lockstep-2, rank 1 of ...".
constexpr std::string_view kDigestRemark = "digest ";
constexpr std::string_view kBeforeIdentity = ", ";

/// The definition of journals that do not name one.
constexpr std::string_view kFirstDigest = "lockstep-1";

/// Throws Error (usage) where a definition is named and has no name.
void read_remark(const std::filesystem::path& path, const std::string& remark, std::string& digest,
                 std::string& identity) {
  digest = kFirstDigest;
  identity = remark;
  if (!remark.starts_with(kDigestRemark)) return;
  const std::string rest = remark.substr(kDigestRemark.size());
  const std::size_t end = std::min(rest.find(kBeforeIdentity), rest.size());
  digest = rest.substr(0, end);
  identity = rest.substr(std::min(end + kBeforeIdentity.size(), rest.size()));
  if (!digest.empty()) return;
  throw malformed(path.string(), 1, 0, "the name of the digests' definition", remark);
}

std::string shape_cell(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

std::optional<std::vector<std::int64_t>> parse_shape(std::string_view cell) {
  std::vector<std::int64_t> shape;
  if (cell == "scalar") return shape;
  const char* at = cell.data();
  const char* const end = at + cell.size();
  for (;;) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0) return std::nullopt;
    shape.push_back(size);
    if (stop == end) return shape;
    if (*stop != 'x') return std::nullopt;
    at = stop + 1;
  }
}

std::string row_of(const Observation& o) {
  const std::string digest = o.not_comparable.empty() ? to_text(o.digest) : "";
  const Statistics& s = o.statistics;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", o.seq, o.step,
                     o.micro_batch, name(o.phase), name(o.kind), csv_cell(o.name),
                     csv_cell(o.dtype), shape_cell(o.global_shape), shape_cell(o.offset),
                     shape_cell(o.local_shape), csv_cell(o.replica_group),
                     csv_cell(o.not_comparable), digest, exact_decimal(s.norm), csv_cell(s.minimum),
                     csv_cell(s.maximum), s.non_finite);
}

// One row, cell by cell; every refusal names the cell.
class RowReader {
 public:
  RowReader(const CsvRow& row, const std::filesystem::path& path) : row_(row), path_(path) {}

  std::int64_t whole(Column column, std::int64_t least) const {
    const std::int64_t value = to_int(row_, column, path_, journal_columns());
    if (value < least) {
      throw refusal(column, fmt::format("at least {} as '{}'", least, journal_columns()[column]));
    }
    return value;
  }

  double number(Column column) const { return to_double(row_, column, path_, journal_columns()); }

  std::string text(Column column) const { return unescape_cell(row_.cells[column]); }

  template <class Enum>
  Enum word(Column column) const {
    return required(parse<Enum>(row_.cells[column]), column,
                    fmt::format("one of {}", fmt::join(Names<Enum>::values, ", ")));
  }

  std::vector<std::int64_t> shape(Column column) const {
    return required(parse_shape(row_.cells[column]), column, "sizes like 2x3, or scalar");
  }

  std::vector<std::int64_t> shape_like(const std::vector<std::int64_t>& other,
                                       Column column) const {
    std::vector<std::int64_t> result = shape(column);
    if (result.size() == other.size()) return result;
    throw refusal(column, fmt::format("as many sizes as the global shape, {}", other.size()));
  }

  Digest digest() const {
    return required(digest_from_text(row_.cells[kDigest]), kDigest, "32 hexadecimal digits");
  }

  Error refusal(Column column, std::string_view expected) const {
    return malformed(path_.string(), row_.line, static_cast<std::int64_t>(column) + 1, expected,
                     row_.cells[column]);
  }

 private:
  template <class T>
  T required(const std::optional<T>& value, Column column, std::string_view expected) const {
    if (!value) throw refusal(column, expected);
    return *value;
  }

  const CsvRow& row_;
  const std::filesystem::path& path_;
};

/// No tensor has more, and what a shape counts stays far from the largest whole number.
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

/// The judge lists the pieces of a shard.
constexpr std::int64_t kMostRuns = std::int64_t{1} << 24;

bool has_countable_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size > 0 && elements > kMostElements / size) return false;
    elements *= size;
  }
  return true;
}

Observation observation_in(const RowReader& row) {
  Observation o;
  o.seq = row.whole(kSeq, 0);
  o.step = row.whole(kStep, 1);
  o.micro_batch = row.whole(kMicroBatch, 0);
  o.phase = row.word<Phase>(kPhase);
  o.kind = row.word<Kind>(kKind);
  o.name = row.text(kName);
  o.dtype = row.text(kDType);
  o.global_shape = row.shape(kGlobalShape);
  o.offset = row.shape_like(o.global_shape, kOffset);
  o.local_shape = row.shape_like(o.global_shape, kLocalShape);
  for (std::size_t d = 0; d < o.global_shape.size(); ++d) {
    const bool is_inside = o.local_shape[d] <= o.global_shape[d] &&
                           o.offset[d] <= o.global_shape[d] - o.local_shape[d];
    if (!is_inside) throw row.refusal(kLocalShape, "a part that lies in the global shape");
  }
  if (!has_countable_elements(o.global_shape)) {
    throw row.refusal(kGlobalShape, fmt::format("at most {} elements", kMostElements));
  }
  if (number_of_runs(o) > kMostRuns) {
    throw row.refusal(kLocalShape, fmt::format("a part in at most {} pieces", kMostRuns));
  }
  o.replica_group = row.text(kReplicaGroup);
  o.not_comparable = row.text(kNotComparable);
  if (o.not_comparable.empty()) o.digest = row.digest();
  o.statistics.norm = row.number(kNorm);
  o.statistics.minimum = row.text(kMinimum);
  o.statistics.maximum = row.text(kMaximum);
  o.statistics.non_finite = row.whole(kNonFinite, 0);
  return o;
}

}  // namespace

const std::vector<std::string_view>& journal_columns() {
  static const std::vector<std::string_view> columns{
      "seq",    "step",         "micro_batch", "phase",       "kind",          "name",
      "dtype",  "global_shape", "offset",      "local_shape", "replica_group", "not_comparable",
      "digest", "norm",         "minimum",     "maximum",     "non_finite"};
  return columns;
}

JournalWriter::JournalWriter(const std::filesystem::path& path, std::string_view identity)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw unwritable(path_.string(), std::strerror(errno));
  const std::string remark = fmt::format("# {}{}{}{}\n", kDigestRemark, kDigestName,
                                         identity.empty() ? "" : kBeforeIdentity, identity);
  if (write_all(fd_, fmt::format("{}{}\n", remark, fmt::join(journal_columns(), ",")))) return;
  const int error = errno;
  ::close(fd_);
  throw unwritable(path_.string(), std::strerror(error));
}

JournalWriter::~JournalWriter() { ::close(fd_); }

void JournalWriter::append(const Observation& observation) {
  if (!write_all(fd_, row_of(observation))) throw unwritable(path_.string(), std::strerror(errno));
}

bool has_journal(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) && RegularFile(path, kLargestJournal).size() > 0;
}

namespace {

const CsvKind& kind_of_journals() {
  static const CsvKind kind{journal_columns(), TornTail::is_left_out, kLargestJournal, true,
                            kRenamedColumns};
  return kind;
}

/// The row of a journal that counts `seq`.
Observation observation_in(const CsvRow& row, std::int64_t seq, const std::filesystem::path& path) {
  const RowReader reader(row, path);
  Observation observation = observation_in(reader);
  if (observation.seq != seq) throw reader.refusal(kSeq, fmt::format("{} as 'seq'", seq));
  return observation;
}

}  // namespace

JournalReader::JournalReader(std::filesystem::path path) : path_(std::move(path)) {
  const CsvFrame frame = read_csv(path_, kind_of_journals(), [&](const CsvRow& row) {
    note(observation_in(row, rows_, path_), row);
  });
  if (!steps_.empty()) steps_.back().part.bytes = frame.end - steps_.back().part.offset;
  has_torn_tail_ = frame.torn_tail;
  read_remark(path_, frame.remark, digest_, identity_);
}

void JournalReader::note(const Observation& observation, const CsvRow& row) {
  if (steps_.empty() || steps_.back().step != observation.step) {
    if (!steps_.empty()) {
      JournalStep& last = steps_.back();
      if (observation.step < last.step) {
        throw RowReader(row, path_).refusal(kStep, fmt::format("at least {} as 'step'", last.step));
      }
      last.part.bytes = row.offset - last.part.offset;
    }
    steps_.push_back({observation.step, rows_, 0, false, {row.offset, 0, row.line}});
  }
  ++rows_;
  ++steps_.back().rows;
  if (observation.not_comparable.empty()) steps_.back().has_values = true;
  tensors_.insert(static_cast<const ObservedTensor&>(observation));
}

std::vector<Observation> JournalReader::read(const JournalStep& step) const {
  std::vector<Observation> observations;
  observations.reserve(static_cast<std::size_t>(step.rows));
  read_csv(path_, kind_of_journals(), step.part, [&](const CsvRow& row) {
    const auto seq = step.first_seq + static_cast<std::int64_t>(observations.size());
    observations.push_back(observation_in(row, seq, path_));
    if (observations.back().step == step.step) return;
    throw RowReader(row, path_).refusal(kStep, fmt::format("{} as 'step'", step.step));
  });
  if (static_cast<std::int64_t>(observations.size()) == step.rows) return observations;
  throw malformed(path_.string(), step.part.line, 0,
                  fmt::format("the {} rows of step {} that were there", step.rows, step.step),
                  fmt::format("{}", observations.size()));
}

}  // namespace lockstep
