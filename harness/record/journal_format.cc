#include "harness/record/journal_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "harness/record/digest.h"
#include "harness/record/tensor_cells.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {

namespace {

/// The first line names the version of a journal and the definition of the digests: "journal 2,
/// digest lockstep-2, rank 1 of ...". Journals without a version hold the whole tensor in each row.
/// Those without a definition use the first one.
constexpr std::string_view kRemark = "journal 2, ";
constexpr std::string_view kThinnedRemark = "thinned, ";
constexpr std::string_view kAnyRemark = "# journal ";
constexpr std::string_view kDigestRemark = "digest ";
constexpr std::string_view kBeforeIdentity = ", ";
constexpr std::string_view kFirstDigest = "lockstep-1";

/// Written with records of 1.x.
constexpr std::array kRenamed{RenamedColumn{"phase", "point"},
                              RenamedColumn{"digest", "fingerprint"}};

/// Throws Error (usage) if the remark announces a definition but gives no name.
void read_remark(const std::filesystem::path& path, const std::string& remark,
                 JournalHeader& header) {
  std::string_view rest = remark;
  if (!header.is_of_first_kind) rest.remove_prefix(kRemark.size());
  if (!header.is_of_first_kind && rest.starts_with(kThinnedRemark)) {
    header.is_thinned = true;
    rest.remove_prefix(kThinnedRemark.size());
  }
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
  const std::string today = fmt::format("# {}", kRemark);
  const std::string begin = file.read(0, std::min<std::uint64_t>(file.size(), today.size()));
  if (begin == today) return true;
  if (!begin.starts_with(kAnyRemark)) return false;
  throw malformed(path.string(), 1, 0, "journal version 2, or an older journal", begin);
}

}  // namespace

const CsvKind& kind_of_journals() {
  static const std::vector<std::string_view> columns{
      "step", "micro_batch", "tensor", "digest", "norm", "minimum", "maximum", "non_finite"};
  static const CsvKind kind{columns, TornTail::is_left_out, kLargestJournal, true};
  return kind;
}

const CsvKind& kind_of_first_journals() {
  static const std::vector<std::string_view> columns = [] {
    std::vector<std::string_view> all{"seq", "step", "micro_batch"};
    all.insert(all.end(), tensor_columns().begin(), tensor_columns().end());
    all.insert(all.end(), {"digest", "norm", "minimum", "maximum", "non_finite"});
    return all;
  }();
  static const CsvKind kind{columns, TornTail::is_left_out, kLargestJournal, true, kRenamed};
  return kind;
}

std::uint64_t JournalHeader::bytes_as_written() const {
  return is_thinned ? bytes - kThinnedRemark.size() : bytes;
}

std::string journal_header_of(std::string_view identity) {
  return fmt::format("# {}{}{}{}{}\n{}\n", kRemark, kDigestRemark, kDigestName,
                     identity.empty() ? "" : kBeforeIdentity, identity,
                     fmt::join(kind_of_journals().columns, ","));
}

std::string thinned_journal_header(std::string_view lines) {
  constexpr std::size_t kBegin = std::string_view("# ").size() + kRemark.size();
  return std::string(lines.substr(0, kBegin)).append(kThinnedRemark).append(lines.substr(kBegin));
}

JournalHeader read_journal_header(const std::filesystem::path& path) {
  JournalHeader header;
  header.is_of_first_kind = !is_of_second_kind(path);
  const CsvFrame frame = read_csv_header(
      path, header.is_of_first_kind ? kind_of_first_journals() : kind_of_journals());
  read_remark(path, frame.remark, header);
  header.bytes = frame.end;
  header.lines = frame.lines;
  return header;
}

}  // namespace lockstep
