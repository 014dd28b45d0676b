#include "harness/record/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "harness/record/digest.h"
#include "harness/record/journal.h"
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

/// What is behind `prefix` and a rank in the name of a file: ".csv" of "rank-1.csv".
struct NameOfRank {
  int rank = 0;
  std::string_view kind;
};

std::optional<NameOfRank> after(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  NameOfRank found;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), found.rank);
  if (error != std::errc() || found.rank < 0) return std::nullopt;
  found.kind = digits.substr(static_cast<std::size_t>(end - digits.data()));
  // "rank-01.csv" is no file of ours.
  return name == fmt::format("{}{}{}", prefix, found.rank, found.kind) ? std::optional(found)
                                                                       : std::nullopt;
}

bool is_journal(const NameOfRank& name) { return name.kind == ".csv"; }

/// What can be done without: values that are not needed where digests are equal, and an index.
bool may_be_deleted(const NameOfRank& name) {
  return name.kind == ".index" || name.kind.ends_with(".safetensors");
}

/// What the process beside a rank of another machine may write after everybody else has ended.
bool may_come_late(const NameOfRank& name) { return name.kind == ".exit.json"; }

/// The rank that a file is evidence of; nothing for any other. What it printed is none: people
/// shorten it.
std::optional<NameOfRank> evidence_of_rank(std::string_view name) {
  if (const auto log = after("collectives-", name)) {
    return log->kind == ".bin" ? log : std::nullopt;
  }
  const auto found = after("rank-", name);
  if (!found) return std::nullopt;
  const std::string_view kind = found->kind;
  const bool is_evidence = kind == ".csv" || kind == ".tensors.csv" || kind == ".index" ||
                           kind == ".status.json" || kind == ".exit.json" ||
                           (kind.starts_with(".step-") && kind.ends_with(".safetensors"));
  return is_evidence ? found : std::nullopt;
}

/// A line of the list.
struct ManifestEntry {
  std::string file;
  int rank = 0;
  std::string rows;  ///< of a journal; empty for any other file, and where it cannot be read
  std::string steps;
  std::uint64_t bytes = 0;
  std::string digest;
};

/// The names of the files of `processes` ranks that are in the folder, by rank and name.
std::vector<std::pair<int, std::string>> names_in(const fs::path& folder, int processes) {
  std::vector<std::pair<int, std::string>> names;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    std::string name = entry.path().filename().string();
    const auto found = evidence_of_rank(name);
    if (found && found->rank < processes) names.emplace_back(found->rank, std::move(name));
  }
  if (failure) throw unreadable(folder.string(), failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// The digest of a file's bytes, and how many they are.
std::pair<std::uint64_t, std::string> digest_of_file(const fs::path& path) {
  constexpr std::uint64_t kChunk = 4 * kMebibyte;
  const RegularFile file(path, kLargestFile);
  Digest digest;
  for (std::uint64_t at = 0; at < file.size(); at += kChunk) {
    const std::string bytes = file.read(at, std::min(kChunk, file.size() - at));
    digest += digest_run(std::as_bytes(std::span(bytes)), at);
  }
  return {file.size(), to_text(digest)};
}

/// A journal that cannot be read is listed all the same: whoever reads it says why.
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
  for (const auto& [rank, name] : names_in(folder, processes)) {
    ManifestEntry& entry = entries.emplace_back();
    entry.file = name;
    entry.rank = rank;
    if (is_journal(*evidence_of_rank(name))) count_rows(folder / name, entry);
    std::tie(entry.bytes, entry.digest) = digest_of_file(folder / name);
  }
  return entries;
}

std::string first_line(std::string_view identity) {
  return fmt::format("manifest 1, digest {}, {}", kDigestName, identity);
}

/// The list, by file.
std::map<std::string, ManifestEntry> read_manifest(const fs::path& path,
                                                   std::string_view identity) {
  const CsvKind kind{columns_of_manifest(), TornTail::is_an_error, kLargestManifest, true};
  std::map<std::string, ManifestEntry> entries;
  const CsvFrame frame = read_csv(path, kind, [&](const CsvRow& row) {
    ManifestEntry entry;
    entry.file = std::string(row.cells[0]);
    const auto named = evidence_of_rank(entry.file);
    if (!named) {
      throw malformed(path.string(), row.line, 1, "the name of a rank's file", entry.file);
    }
    entry.rank = named->rank;
    entry.bytes = static_cast<std::uint64_t>(to_int(row, 4, path, columns_of_manifest()));
    entry.digest = std::string(row.cells[5]);
    entries.emplace(entry.file, entry);
  });
  if (frame.remark != first_line(identity)) {
    throw malformed(path.string(), 1, 0, "# " + first_line(identity), "# " + frame.remark);
  }
  return entries;
}

}  // namespace

fs::path manifest_file(const fs::path& folder) { return folder / "manifest.csv"; }

ManifestSeal write_manifest(const fs::path& folder, int processes, std::string_view identity) {
  std::string list =
      fmt::format("# {}\n{}\n", first_line(identity), fmt::join(columns_of_manifest(), ","));
  ManifestSeal seal;
  for (const ManifestEntry& entry : entries_of(folder, processes)) {
    list += fmt::format("{},{},{},{},{},{}\n", entry.file, entry.rank, entry.rows, entry.steps,
                        entry.bytes, entry.digest);
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
  const auto [bytes, digest] = digest_of_file(list);
  if (static_cast<std::int64_t>(bytes) != seal.bytes || digest != seal.digest) {
    return {
        fmt::format("{} was changed: {} bytes with the digest {}, where the record has {} "
                    "with {}",
                    name, bytes, digest, seal.bytes, seal.digest)};
  }
  std::map<std::string, ManifestEntry> expected = read_manifest(list, identity);
  std::vector<std::string> faults;
  for (const auto& [rank, file] : names_in(folder, processes)) {
    const auto listed = expected.extract(file);
    if (listed.empty() && may_come_late(*evidence_of_rank(file))) continue;
    if (listed.empty()) {
      faults.push_back(fmt::format("{} was added: {} does not list it", file, name));
      continue;
    }
    const auto [size, found] = digest_of_file(folder / file);
    if (meter && is_journal(*evidence_of_rank(file))) meter(size);
    if (size == listed.mapped().bytes && found == listed.mapped().digest) continue;
    faults.push_back(
        fmt::format("{} was changed: {} bytes with the digest {}, where {} lists {} "
                    "with {}",
                    file, size, found, name, listed.mapped().bytes, listed.mapped().digest));
  }
  for (const auto& [file, entry] : expected) {
    if (may_be_deleted(*evidence_of_rank(file))) continue;
    faults.push_back(fmt::format("{} is missing", file));
  }
  return faults;
}

}  // namespace lockstep
