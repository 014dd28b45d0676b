#include "harness/record/journal_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "harness/record/digest.h"
#include "harness/record/file_header.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"

namespace lockstep {

namespace {

/// The first line: "# journal 2, digest lockstep-2, rank 1 of ...". "thinned, " may follow the
/// version.
constexpr FileKind kJournalKind{"a journal", "# journal ", "2"};
constexpr std::string_view kThinned = "thinned, ";
constexpr std::string_view kDigests = "digest ";
constexpr std::string_view kBetween = ", ";

/// Removes `text` from the front of `rest`, if it is there.
bool take_front(std::string_view text, std::string_view& rest) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

/// `remark`: the first line, of this version, without "# ".
JournalHeader header_in(std::string_view remark, const std::filesystem::path& path) {
  JournalHeader header;
  std::string_view rest = remark.substr(std::min(remark.find(kBetween), remark.size()));
  take_front(kBetween, rest);
  header.is_thinned = take_front(kThinned, rest);
  const bool is_ours = take_front(kDigests, rest) && take_front(kDigestName, rest) &&
                       (rest.empty() || take_front(kBetween, rest));
  if (!is_ours) {
    throw malformed(path.string(), 1, 0, fmt::format("digests by {}", kDigestName), remark);
  }
  header.identity = rest;
  return header;
}

}  // namespace

const CsvKind& kind_of_journals() {
  static const std::vector<std::string_view> columns{
      "step", "micro_batch", "tensor", "digest", "norm", "minimum", "maximum", "non_finite"};
  static const CsvKind kind{columns, TornTail::is_left_out, kLargestJournal, true};
  return kind;
}

std::uint64_t JournalHeader::bytes_as_written() const {
  return is_thinned ? bytes - kThinned.size() : bytes;
}

std::string journal_header_of(std::string_view identity) {
  return fmt::format("{}{}{}{}{}{}{}\n{}\n", kJournalKind.begin, kJournalKind.version, kBetween,
                     kDigests, kDigestName, identity.empty() ? "" : kBetween, identity,
                     fmt::join(kind_of_journals().columns, ","));
}

std::string thinned_journal_header(std::string_view lines) {
  constexpr std::size_t kEnd =
      kJournalKind.begin.size() + kJournalKind.version.size() + kBetween.size();
  return std::string(lines.substr(0, kEnd)).append(kThinned).append(lines.substr(kEnd));
}

JournalHeader read_journal_header(const std::filesystem::path& path) {
  require_version(path, kJournalKind, kLargestJournal);
  const CsvFrame frame = read_csv_header(path, kind_of_journals());
  JournalHeader header = header_in(frame.remark, path);
  header.bytes = frame.end;
  header.lines = frame.lines;
  return header;
}

}  // namespace lockstep
