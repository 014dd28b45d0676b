#include "harness/record/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "harness/record/digest.h"
#include "harness/record/file_digest.h"
#include "harness/record/file_header.h"
#include "harness/record/journal.h"
#include "harness/record/rank_files.h"
#include "harness/record/whole_file.h"
#include "reports/base/csv_text.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string_view>& columns_of_manifest() {
  static const std::vector<std::string_view> columns{"file",  "rank",  "rows",
                                                     "steps", "bytes", "digest"};
  return columns;
}

/// A file that a rank left as evidence.
struct FileOfRank {
  int rank = 0;
  std::string name;  ///< "rank-1.csv"
  std::string kind;  ///< suffix after the rank: ".csv"

  auto operator<=>(const FileOfRank&) const = default;

  bool is_journal() const { return kind == ".csv"; }  ///< its first segment

  /// ".csv" for ".segment-2.csv".
  std::string kind_in_segments() const {
    return kind.starts_with(".segment-") ? kind.substr(kind.find('.', 1)) : kind;
  }

  /// Optional files: snapshots and sketches, which equal digests make unnecessary, and an index.
  bool may_be_deleted() const {
    const std::string ending = kind_in_segments();
    return ending == ".index" || ending == ".sketches" || ending.ends_with(".safetensors");
  }

  /// The helper process of a rank on another machine may write it after all others have ended.
  bool may_come_late() const { return kind == ".exit.json"; }
};

std::optional<FileOfRank> after(std::string_view prefix, const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const char* const end = name.data() + name.size();
  FileOfRank found{0, name, ""};
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, found.rank);
  if (error != std::errc() || found.rank < 0) return std::nullopt;
  found.kind.assign(rest, end);
  // "rank-01.csv" is not one of our files.
  const bool is_ours = name == fmt::format("{}{}{}", prefix, found.rank, found.kind);
  return is_ours ? std::optional(found) : std::nullopt;
}

/// The file with this name; empty if it is not evidence. A rank's output is not, because people
/// shorten it.
std::optional<FileOfRank> file_of_rank(const std::string& name) {
  if (auto log = after("collectives-", name)) {
    return log->kind == ".bin" ? log : std::nullopt;
  }
  auto found = after("rank-", name);
  if (!found) return std::nullopt;
  const std::string& kind = found->kind;
  const std::string ending = found->kind_in_segments();
  const bool is_evidence =
      ending == ".csv" || kind == ".tensors.csv" || kind == ".index" || ending == ".sketches" ||
      kind == ".status.json" || kind == ".exit.json" || kind == kKeptAnswerEnding ||
      kind == kEndEnding || (kind.starts_with(".step-") && kind.ends_with(".safetensors"));
  return is_evidence ? found : std::nullopt;
}

/// A line of the list.
struct ManifestEntry {
  FileOfRank file;
  std::string rows;  ///< of a journal; empty for other files and if it is unreadable
  std::string steps;
  std::uint64_t bytes = 0;
  std::string digest;
};

/// The files of `processes` ranks in the folder, by rank and name.
std::vector<FileOfRank> files_in(const fs::path& folder, int processes) {
  std::vector<FileOfRank> files;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    auto file = file_of_rank(entry.path().filename().string());
    if (file && file->rank < processes) files.push_back(std::move(*file));
  }
  if (failure) throw unreadable(folder.string(), failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// The size of a file and its digest.
using FileDigest = std::pair<std::uint64_t, std::string>;

FileDigest digest_of_file(const fs::path& path) {
  const RegularFile file(path, kLargestFile);
  return {file.size(), to_text(digest_of(file, 0, file.size()))};
}

/// An unreadable journal is listed all the same; its reader reports the reason.
void count_rows(const fs::path& journal, ManifestEntry& entry) {
  if (!has_journal(journal)) return;
  try {
    const JournalReader reader(journal);
    entry.rows = fmt::to_string(reader.rows());
    entry.steps = fmt::to_string(reader.steps().size());
  } catch (const Error&) {
  }
}

std::vector<ManifestEntry> entries_of(const fs::path& folder, int processes) {
  std::vector<ManifestEntry> entries;
  for (FileOfRank& file : files_in(folder, processes)) {
    const fs::path path = folder / file.name;
    ManifestEntry& entry = entries.emplace_back();
    entry.file = std::move(file);
    if (entry.file.is_journal()) count_rows(path, entry);
    std::tie(entry.bytes, entry.digest) = digest_of_file(path);
  }
  return entries;
}

constexpr FileKind kManifestKind{"a manifest", "# manifest ", "1"};

std::string first_line(std::string_view identity) {
  return fmt::format("{}{}, digest {}, {}", kManifestKind.begin, kManifestKind.version, kDigestName,
                     identity);
}

/// The list, by file.
std::map<std::string, ManifestEntry> read_manifest(const fs::path& path,
                                                   std::string_view identity) {
  require_version(path, kManifestKind, kLargestManifest);
  const CsvKind kind{columns_of_manifest(), TornTail::is_an_error, kLargestManifest, true};
  std::map<std::string, ManifestEntry> entries;
  const CsvFrame frame = read_csv(path, kind, [&](const CsvRow& row) {
    const std::string name(row.cells[0]);
    const auto file = file_of_rank(name);
    if (!file) throw malformed(path.string(), row.line, 1, "the name of a rank's file", name);
    ManifestEntry entry;
    entry.file = *file;
    entry.bytes = static_cast<std::uint64_t>(to_int(row, 4, path, columns_of_manifest()));
    entry.digest = std::string(row.cells[5]);
    entries.emplace(name, entry);
  });
  const std::string line = "# " + frame.remark;
  if (line != first_line(identity)) {
    throw malformed(path.string(), 1, 0, first_line(identity), line);
  }
  return entries;
}

/// `source`: introduces the recorded state `then`: "the record has".
std::string change_in_words(const std::string& file, const FileDigest& now,
                            const std::string& source, const FileDigest& then) {
  return fmt::format("{} was changed: it has {} bytes with digest {}, but {} {} with {}", file,
                     now.first, now.second, source, then.first, then.second);
}

/// What is wrong with a file in `folder` that the list called `list` has as `listed`, null if it
/// has it not; empty if nothing is.
std::string fault_of(const fs::path& folder, const FileOfRank& file, const ManifestEntry* listed,
                     const std::string& list,
                     const std::function<void(std::uint64_t bytes)>& meter) {
  if (!listed) {
    if (file.may_come_late()) return {};
    return fmt::format("{} was added: {} does not list it", file.name, list);
  }
  const FileDigest now = digest_of_file(folder / file.name);
  if (meter && file.is_journal()) meter(now.first);
  const FileDigest then{listed->bytes, listed->digest};
  return now == then ? "" : change_in_words(file.name, now, list + " lists", then);
}

}  // namespace

fs::path manifest_file(const fs::path& folder) { return folder / "manifest.csv"; }

ManifestSeal write_manifest(const fs::path& folder, int processes, std::string_view identity) {
  std::string list =
      fmt::format("{}\n{}\n", first_line(identity), fmt::join(columns_of_manifest(), ","));
  ManifestSeal seal;
  for (const ManifestEntry& entry : entries_of(folder, processes)) {
    list += fmt::format("{},{},{},{},{},{}\n", entry.file.name, entry.file.rank, entry.rows,
                        entry.steps, entry.bytes, entry.digest);
    ++seal.files;
  }
  write_whole_file(manifest_file(folder), list);
  seal.bytes = static_cast<std::int64_t>(list.size());
  seal.digest = to_text(digest_run(std::as_bytes(std::span(list)), 0));
  return seal;
}

std::vector<std::string> manifest_faults(const fs::path& folder, int processes,
                                         std::string_view identity, const ManifestSeal& seal,
                                         const std::function<void(std::uint64_t bytes)>& meter) {
  const fs::path list = manifest_file(folder);
  const std::string name = list.filename().string();
  std::error_code missing;
  if (!fs::exists(list, missing)) return {name + " is missing"};
  const auto found = digest_of_file(list);
  const FileDigest sealed{static_cast<std::uint64_t>(seal.bytes), seal.digest};
  if (found != sealed) return {change_in_words(name, found, "the record has", sealed)};
  std::map<std::string, ManifestEntry> expected = read_manifest(list, identity);
  std::vector<std::string> faults;
  for (const FileOfRank& file : files_in(folder, processes)) {
    const auto listed = expected.extract(file.name);
    const ManifestEntry* const entry = listed.empty() ? nullptr : &listed.mapped();
    std::string fault = fault_of(folder, file, entry, name, meter);
    if (!fault.empty()) faults.push_back(std::move(fault));
  }
  for (const auto& [file, entry] : expected) {
    if (!entry.file.may_be_deleted()) faults.push_back(fmt::format("{} is missing", file));
  }
  return faults;
}

}  // namespace lockstep
