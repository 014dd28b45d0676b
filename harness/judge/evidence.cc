#include "harness/judge/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>

#include "harness/record/shard_runs.h"
#include "reports/error.h"

namespace lockstep {

namespace fs = std::filesystem;

namespace {

/// Tolerances are relative to the norms of the journal. Their order of summation is not specified.
void require_norm(const Observation& observation, const KeptTensor& tensor, const fs::path& file) {
  constexpr double kRounding = 1e-9;
  if (name(tensor.dtype) != observation.dtype) return;  // which no comparison takes for equal
  const double found = statistics(tensor.dtype, tensor.bytes).norm;
  const double stated = observation.statistics.norm;
  if (std::abs(found - stated) <= kRounding * found) return;
  throw malformed(file.string(), 0, 0,
                  fmt::format("{} with the norm {} of the journal's row {}", kept_key(observation),
                              stated, observation.seq),
                  fmt::format("{}", found));
}

/// A value that is not the one that was fingerprinted is no evidence.
void require_fingerprint(const Observation& observation, const KeptTensor& tensor,
                         const fs::path& file) {
  const Fingerprint found =
      observation.local_shape == tensor.shape
          ? fingerprint_of_part(observation, tensor.bytes, item_size(tensor.dtype))
          : fingerprint_run(tensor.bytes, 0);
  if (found == observation.fingerprint) return require_norm(observation, tensor, file);
  throw malformed(
      file.string(), 0, 0,
      fmt::format("{} with the fingerprint {} of the journal's row {}", kept_key(observation),
                  to_text(observation.fingerprint), observation.seq),
      to_text(found));
}

}  // namespace

Evidence::Evidence(fs::path folder, int processes) : folder_(std::move(folder)) {
  for (int rank = 0; rank < processes; ++rank) {
    read_journal_of(rank);
    read_kept_values_of(rank);
    read_collectives_of(rank);
  }
}

void Evidence::read_journal_of(int rank) {
  const fs::path file = folder_ / fmt::format("rank-{}.csv", rank);
  // A rank that was killed at once has written nothing.
  const bool is_written = fs::exists(file) && !fs::is_empty(file);
  journals_.push_back(is_written ? read_journal(file) : Journal{});
  if (journals_.back().torn_tail) {
    notes_.push_back(
        fmt::format("rank {}: the last row of its journal was torn and left out", rank));
  }
}

void Evidence::read_kept_values_of(int rank) {
  for (const Observation& observation : observations(rank)) {
    if (!observation.not_comparable.empty()) continue;
    const fs::path file = kept_file(folder_, rank, observation.step);
    const auto [step, is_new] = kept_.try_emplace({rank, observation.step});
    if (is_new && fs::exists(file)) {
      step->second = read_safetensors(file);
    } else if (is_new) {
      missing_[rank].push_back(observation.step);
    }
    const auto tensor = step->second.find(kept_key(observation));
    if (tensor != step->second.end()) require_fingerprint(observation, tensor->second, file);
  }
}

namespace {

/// Whether a log was begun: before, it is a file of zeros, or none.
bool has_header(const fs::path& file) {
  std::ifstream log(file, std::ios::binary);
  return log && log.get() > 0;
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

void Evidence::read_collectives_of(int rank) {
  const fs::path file = collective_log_file(folder_, rank);
  auto& log = collectives_.emplace_back();
  // A rank that was killed while it made its log left a file without a header.
  if (has_header(file)) log = read_collective_log(file);
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

const KeptTensor* Evidence::kept(int rank, const Observation& observation) const {
  const auto step = kept_.find({rank, observation.step});
  if (step == kept_.end()) return nullptr;
  const auto tensor = step->second.find(kept_key(observation));
  return tensor == step->second.end() ? nullptr : &tensor->second;
}

}  // namespace lockstep
