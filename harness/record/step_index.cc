#include "harness/record/step_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <tuple>

#include "harness/record/file_header.h"
#include "harness/record/list_digest.h"
#include "harness/record/tensor_cells.h"
#include "reports/base/error.h"
#include "reports/base/file_limits.h"
#include "reports/base/regular_file.h"

namespace lockstep {
namespace {

Digest digest_of_text(std::string_view text) {
  return digest_run(std::as_bytes(std::span(text)), 0);
}

void add_text(std::string_view text, ListDigest& list) {
  list.add(text.size());
  list.add(digest_of_text(text));
}

void add_shape(const std::vector<std::int64_t>& shape, ListDigest& list) {
  list.add(shape.size());
  for (const std::int64_t size : shape) list.add(static_cast<std::uint64_t>(size));
}

}  // namespace

TensorIdentity identity_of(const ObservedTensor& tensor) {
  ListDigest list;
  list.add(static_cast<std::uint64_t>(tensor.phase));
  list.add(static_cast<std::uint64_t>(tensor.kind));
  add_text(tensor.name, list);
  add_text(tensor.dtype, list);
  add_shape(tensor.global_shape, list);
  add_shape(tensor.offset, list);
  add_shape(tensor.local_shape, list);
  add_text(tensor.replica_group, list);
  list.add(tensor.is_summand ? 1 : 0);
  add_text(tensor.not_comparable, list);
  ListDigest group;
  add_text(tensor.replica_group, group);
  return {list.digest(), group.digest(), tensor.phase, tensor.not_comparable.empty(),
          is_of_whole_numbers(tensor.dtype)};
}

void add(const TensorIdentity& tensor, std::int64_t micro_batch, const Digest& digest,
         std::int64_t non_finite, StepSummary& summary) {
  ListDigest row;
  row.add(tensor.tensor);
  row.add(static_cast<std::uint64_t>(micro_batch));
  ++summary.rows;
  // A file may hold any number.
  if (__builtin_add_overflow(summary.non_finite, non_finite, &summary.non_finite)) {
    summary.non_finite = INT64_MAX;
  }
  summary.has_values = summary.has_values || tensor.has_values;
  summary.tensors += row.digest();
  if (tensor.has_values) row.add(digest);
  summary.groups[tensor.group].at(static_cast<std::size_t>(tensor.phase)) += row.digest();
}

StepSummary::Phases own_rows_of(int rank, const StepSummary& summary) {
  ObservedTensor own;
  own.replica_group = group_of_one(rank);
  const auto found = summary.groups.find(identity_of(own).group);
  return found == summary.groups.end() ? StepSummary::Phases() : found->second;
}

std::filesystem::path index_file(const std::filesystem::path& journal) {
  return std::filesystem::path(journal).replace_extension(".index");
}

namespace {

constexpr FileKind kIndexKind{"a step index", "lockstep step index ", "1"};

// A step has one entry per replica group. A step without groups has one entry for no group.
struct Word {
  enum : std::size_t {
    kStep,
    kOffset,
    kBytes,
    kRows,
    kNonFinite,
    kHasValues,  ///< 0 or 1
    kGroups,     ///< replica groups of the step
    kTensors,
    kChecksum = kTensors + 2,
    kGroup = kChecksum + 2,
    kPhases = kGroup + 2,
    kCheck = kPhases + 8,
    kWords = kCheck + 2
  };
};
constexpr std::size_t kIndexEntrySize = Word::kWords * sizeof(std::uint64_t);

using IndexEntry = std::array<std::uint64_t, Word::kWords>;

void put(const Digest& digest, std::size_t word, IndexEntry& entry) {
  entry.at(word) = digest.low;
  entry.at(word + 1) = digest.high;
}

Digest digest_at(std::size_t word, const IndexEntry& entry) {
  return {entry.at(word), entry.at(word + 1)};
}

Digest check_of(const IndexEntry& entry) {
  ListDigest list;
  for (std::size_t word = 0; word < Word::kCheck; ++word) list.add(entry.at(word));
  return list.digest();
}

IndexEntry entry_of(const IndexedStep& step) {
  IndexEntry entry{};
  entry[Word::kStep] = static_cast<std::uint64_t>(step.step);
  entry[Word::kOffset] = step.offset;
  entry[Word::kBytes] = step.bytes;
  entry[Word::kRows] = static_cast<std::uint64_t>(step.summary.rows);
  entry[Word::kNonFinite] = static_cast<std::uint64_t>(step.summary.non_finite);
  entry[Word::kHasValues] = step.summary.has_values ? 1 : 0;
  entry[Word::kGroups] = step.summary.groups.size();
  put(step.summary.tensors, Word::kTensors, entry);
  put(step.checksum, Word::kChecksum, entry);
  return entry;
}

std::string_view bytes_of(const IndexEntry& entry) {
  return {reinterpret_cast<const char*>(entry.data()), kIndexEntrySize};
}

std::string entries_of(const IndexedStep& step) {
  IndexEntry entry = entry_of(step);
  std::string text;
  const auto close = [&] {
    put(check_of(entry), Word::kCheck, entry);
    text += bytes_of(entry);
  };
  if (step.summary.groups.empty()) close();
  for (const auto& [group, phases] : step.summary.groups) {
    put(group, Word::kGroup, entry);
    for (std::size_t phase = 0; phase < phases.size(); ++phase) {
      put(phases.at(phase), Word::kPhases + 2 * phase, entry);
    }
    close();
  }
  return text;
}

IndexedStep step_in(const IndexEntry& entry) {
  IndexedStep step;
  step.step = static_cast<std::int64_t>(entry[Word::kStep]);
  step.offset = entry[Word::kOffset];
  step.bytes = entry[Word::kBytes];
  step.checksum = digest_at(Word::kChecksum, entry);
  step.summary.rows = static_cast<std::int64_t>(entry[Word::kRows]);
  step.summary.non_finite = static_cast<std::int64_t>(entry[Word::kNonFinite]);
  step.summary.has_values = entry[Word::kHasValues] != 0;
  step.summary.tensors = digest_at(Word::kTensors, entry);
  return step;
}

StepSummary::Phases phases_in(const IndexEntry& entry) {
  StepSummary::Phases phases;
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    phases.at(phase) = digest_at(Word::kPhases + 2 * phase, entry);
  }
  return phases;
}

/// Whether two entries describe the same step, ignoring groups.
bool is_same_step(const IndexedStep& a, const IndexedStep& b) {
  const auto properties = [](const IndexedStep& step) {
    return std::tie(step.step, step.offset, step.bytes, step.checksum, step.summary.rows,
                    step.summary.non_finite, step.summary.has_values, step.summary.tensors);
  };
  return properties(a) == properties(b);
}

}  // namespace

StepIndexWriter::StepIndexWriter(const std::filesystem::path& path, std::string_view identity)
    : file_(path) {
  file_.append(file_header(kIndexKind, identity));
}

void StepIndexWriter::append(const IndexedStep& step) { file_.append(entries_of(step)); }

namespace {

/// Adds the entries in `text`, which begins at byte `offset` of the file, to `steps`. `missing`
/// counts the entries of the last step that are still to come. Returns the bytes of whole entries.
std::size_t add_entries(const std::filesystem::path& path, std::string_view text,
                        std::uint64_t offset, std::vector<IndexedStep>& steps,
                        std::uint64_t& missing) {
  std::size_t at = 0;
  for (; at + kIndexEntrySize <= text.size(); at += kIndexEntrySize) {
    IndexEntry entry;
    std::memcpy(entry.data(), text.data() + at, kIndexEntrySize);
    if (!is_intact(check_of(entry), digest_at(Word::kCheck, entry))) {
      throw malformed(path.string(), 0, 0,
                      fmt::format("an entry at byte {} as it was written", offset + at),
                      "another checksum");
    }
    IndexedStep step = step_in(entry);
    if (missing == 0) {
      missing = entry[Word::kGroups];
      const bool goes_on =
          !steps.empty() && steps.back().step == step.step && steps.back().offset == step.offset;
      if (goes_on) steps.pop_back();
      steps.push_back(std::move(step));
    } else if (!is_same_step(steps.back(), step)) {
      throw malformed(path.string(), 0, 0,
                      fmt::format("an entry of step {} at byte {}", steps.back().step, offset + at),
                      fmt::format("step {}", step.step));
    }
    if (missing == 0) continue;
    if (!steps.back()
             .summary.groups.emplace(digest_at(Word::kGroup, entry), phases_in(entry))
             .second) {
      throw malformed(
          path.string(), 0, 0,
          fmt::format("every group once in step {}, at byte {}", steps.back().step, offset + at),
          "one twice");
    }
    --missing;
  }
  return at;
}

}  // namespace

StepIndex read_step_index(const std::filesystem::path& path) {
  const std::string text = read_text(path, kLargestIndex);
  StepIndex index{identity_in_header(text, kIndexKind, path), {}};
  std::uint64_t missing = 0;
  add_entries(path, std::string_view(text).substr(kFileHeaderSize), kFileHeaderSize, index.steps,
              missing);
  if (missing > 0) index.steps.pop_back();  // its last entries are torn
  return index;
}

std::vector<IndexedStep> StepIndexReader::completed() {
  constexpr std::uint64_t kMostAtOnce = 1 << 24;
  const RegularFile file(path_, kLargestIndex);
  if (file.size() <= std::max<std::uint64_t>(offset_, kFileHeaderSize)) return {};
  if (offset_ == 0) {
    identity_in_header(file.read(0, kFileHeaderSize), kIndexKind, path_);
    offset_ = kFileHeaderSize;
  }
  const std::string text = file.read(offset_, std::min(file.size() - offset_, kMostAtOnce));
  offset_ += add_entries(path_, text, offset_, steps_, missing_);
  if (steps_.size() < 2) return {};
  std::vector<IndexedStep> whole(std::make_move_iterator(steps_.begin()),
                                 std::make_move_iterator(steps_.end() - 1));
  steps_.erase(steps_.begin(), steps_.end() - 1);
  return whole;
}

}  // namespace lockstep
