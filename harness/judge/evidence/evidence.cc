#include "harness/judge/evidence/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/record/shard_runs.h"
#include "reports/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Tolerances are relative to the norms of the journal. Their order of summation is not specified.
void require_norm(const Observation& observation, const SnapshotTensor& tensor,
                  const fs::path& file) {
  constexpr double kRounding = 1e-9;
  if (name(tensor.dtype) != observation.dtype) return;  // which no comparison takes for equal
  const double found = statistics(tensor.dtype, tensor.bytes).norm;
  const double stated = observation.statistics.norm;
  if (std::abs(found - stated) <= kRounding * found) return;
  throw malformed(file.string(), 0, 0,
                  fmt::format("{} with the norm {} of the journal's row {}",
                              snapshot_key(observation), stated, observation.seq),
                  fmt::format("{}", found));
}

/// A value that is not the one that was digested is no evidence.
void require_digest(const Observation& observation, const SnapshotTensor& tensor,
                    const fs::path& file) {
  const Digest found = observation.local_shape == tensor.shape
                           ? digest_of_part(observation, tensor.bytes, item_size(tensor.dtype))
                           : digest_run(tensor.bytes, 0);
  if (found == observation.digest) return require_norm(observation, tensor, file);
  throw malformed(
      file.string(), 0, 0,
      fmt::format("{} with the digest {} of the journal's row {}", snapshot_key(observation),
                  to_text(observation.digest), observation.seq),
      to_text(found));
}

}  // namespace

Evidence::Evidence(fs::path folder, int processes, std::vector<std::string> identities)
    : folder_(std::move(folder)), identities_(std::move(identities)) {
  for (int rank = 0; rank < processes; ++rank) {
    read_journal_of(rank);
    read_snapshot_of(rank);
    read_collectives_of(rank);
  }
  require_rows_of_all_values();
}

/// Evidence of another process is none of this one.
void Evidence::require_written_by(int rank, const std::string& found, const fs::path& file) {
  if (identities_.empty()) return;
  if (found.empty()) is_signed_ = false;
  const std::string& expected = identities_.at(static_cast<std::size_t>(rank));
  if (found.empty() || found == expected) return;
  throw malformed(file.string(), 0, 0, "a file of " + expected, found);
}

/// Ranks are compared by their digests.
void Evidence::require_same_digest(const Journal& journal, const fs::path& file) {
  if (digest_.empty()) digest_ = journal.digest;
  if (journal.digest == digest_) return;
  throw malformed(file.string(), 0, 0,
                  fmt::format("digests by {}, as other ranks have them", digest_), journal.digest);
}

void Evidence::read_journal_of(int rank) {
  const fs::path file = journal_file(folder_, rank);
  const bool is_written = has_journal(file);
  journals_.push_back(is_written ? read_journal(file) : Journal{});
  if (is_written) {
    require_written_by(rank, journals_.back().identity, file);
    require_same_digest(journals_.back(), file);
  }
  if (journals_.back().torn_tail) {
    notes_.push_back(
        fmt::format("rank {}: the last row of its journal was torn and left out", rank));
  }
}

namespace {

/// Refuses a value that no row of the journal is about. The row that was torn was of the last step.
void require_rows(const std::map<std::int64_t, std::set<std::string>>& without_row,
                  const Journal& journal, const fs::path& folder, int rank) {
  const std::int64_t last = journal.observations.empty() ? 0 : journal.observations.back().step;
  for (const auto& [step, keys] : without_row) {
    if (keys.empty() || (journal.torn_tail && step >= last)) continue;
    throw malformed(snapshot_file(folder, rank, step).string(), 0, 0,
                    "values that the journal has a row of", *keys.begin());
  }
}

}  // namespace

/// The values of a step.
const Evidence::Tensors& Evidence::read_step(int rank, std::int64_t step, const fs::path& file) {
  Tensors& tensors = kept_[{rank, step}];
  Snapshot values = read_snapshot(file);
  require_written_by(rank, values.identity, file);
  tensors = std::move(values.tensors);
  return tensors;
}

void Evidence::read_snapshot_of(int rank) {
  std::map<std::int64_t, std::set<std::string>> without_row;
  for (const Observation& observation : observations(rank)) {
    if (!observation.not_comparable.empty()) continue;
    const fs::path file = snapshot_file(folder_, rank, observation.step);
    const auto [step, is_new] = kept_.try_emplace({rank, observation.step});
    if (is_new && fs::exists(file)) {
      for (const auto& [key, tensor] : read_step(rank, observation.step, file)) {
        without_row[observation.step].insert(key);
      }
    } else if (is_new) {
      missing_[rank].push_back(observation.step);
    }
    const std::string key = snapshot_key(observation);
    const auto tensor = step->second.find(key);
    if (tensor == step->second.end()) continue;
    if (digest_ == kDigestName) {
      require_digest(observation, tensor->second, file);
    } else {
      require_norm(observation, tensor->second, file);
    }
    without_row[observation.step].erase(key);
  }
  require_rows(without_row, journals_.back(), folder_, rank);
}

namespace {

/// Takes `text` and the whole number behind it off the front of `name`.
std::optional<std::int64_t> take_number(std::string_view text, std::string_view& name) {
  if (!name.starts_with(text)) return std::nullopt;
  name.remove_prefix(text.size());
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc()) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(stop - name.data()));
  return number;
}

/// The rank and the step of snapshots by the name of their file; nothing for other files.
std::optional<std::pair<std::int64_t, std::int64_t>> place_of(std::string_view name) {
  const auto rank = take_number("rank-", name);
  const auto step = take_number(".step-", name);
  if (!rank || !step || name != ".safetensors") return std::nullopt;
  return std::pair{*rank, *step};
}

/// "step 3", "steps 1, 6 to 316911" for ascending steps.
std::string steps_in_words(const std::vector<std::int64_t>& steps) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    for (end = begin + 1; end < steps.size() && steps[end] == steps[end - 1] + 1;) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", steps[begin]);
    if (end > begin + 1) text += fmt::format(" to {}", steps[end - 1]);
  }
  return fmt::format("{} {}", steps.size() == 1 ? "step" : "steps", text);
}

}  // namespace

/// Refuses values of a step that the journal does not have at all.
void Evidence::require_rows_of_all_values() const {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto place = place_of(entry.path().filename().string());
    if (!place || place->first < 0 || place->first >= processes()) continue;
    const int rank = static_cast<int>(place->first);
    const bool may_be_torn = journals_[static_cast<std::size_t>(rank)].torn_tail;
    if (may_be_torn || kept_.contains({rank, place->second})) continue;
    throw malformed(entry.path().string(), 0, 0, "values that the journal has a row of",
                    "a step without rows");
  }
}

void Evidence::read_collectives_of(int rank) {
  const fs::path file = collective_log_file(folder_, rank);
  auto& calls = collectives_.emplace_back();
  if (!has_collective_log(file)) return;
  RankCollectives log = read_log_of_rank(file);
  if (log.rank != rank) {
    throw malformed(file.string(), 0, 0, fmt::format("a log of rank {}", rank),
                    fmt::format("rank {}", log.rank));
  }
  require_written_by(rank, log.identity, file);
  calls = std::move(log.calls);
}

std::int64_t Evidence::rows_written(int rank) const {
  const Journal& journal = journals_.at(static_cast<std::size_t>(rank));
  return static_cast<std::int64_t>(journal.observations.size()) + (journal.torn_tail ? 1 : 0);
}

const std::vector<Collective>* Evidence::collectives(int rank) const {
  const auto& log = collectives_.at(static_cast<std::size_t>(rank));
  return log ? &*log : nullptr;
}

std::string Evidence::missing_snapshots(int rank, bool was_ended) const {
  const auto missing = missing_.find(rank);
  if (missing == missing_.end()) return "";
  std::vector<std::int64_t> steps = missing->second;
  // Who was ended in a step did not come to write its values.
  if (was_ended && steps.back() == observations(rank).back().step) steps.pop_back();
  if (steps.empty()) return "";
  return fmt::format("rank {}: snapshots of {} are missing", rank, steps_in_words(steps));
}

const std::vector<Observation>& Evidence::observations(int rank) const {
  return journals_.at(static_cast<std::size_t>(rank)).observations;
}

const SnapshotTensor* Evidence::kept(int rank, const Observation& observation) const {
  const auto step = kept_.find({rank, observation.step});
  if (step == kept_.end()) return nullptr;
  const auto tensor = step->second.find(snapshot_key(observation));
  return tensor == step->second.end() ? nullptr : &tensor->second;
}

}  // namespace lockstep
