#include "harness/verdict/shared_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

constexpr std::size_t kMostSteps = 8;

/// What a rank saw: by step and input, the samples of all micro-batches.
using Seen = std::map<std::pair<std::int64_t, std::string>, Digest>;

void add(const StepView& step, std::vector<Seen>& seen) {
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& row : step.observations(rank)) {
      if (row.kind != Kind::data || !row.not_comparable.empty()) continue;
      seen[static_cast<std::size_t>(rank)][{step.number(), row.name}] += row.digest;
    }
  }
}

}  // namespace

std::string shared_samples_in_words(const StepReader& evidence) {
  const bool has_data =
      std::any_of(evidence.tensors().begin(), evidence.tensors().end(),
                  [](const auto& observed) { return observed.first.kind == Kind::data; });
  if (!has_data) return "";
  std::vector<Seen> seen(static_cast<std::size_t>(evidence.processes()));
  const std::vector<std::int64_t>& steps = evidence.steps();
  const std::size_t compared = std::min(kMostSteps, steps.size());
  for (std::size_t i = 0; i < compared; ++i) add(*evidence.at(steps[i]), seen);
  std::map<Seen, std::vector<int>> groups;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank].empty()) groups[seen[rank]].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const auto& [samples, ranks] : groups) {
    if (ranks.size() < 2) continue;
    text +=
        fmt::format("{}{} saw the same samples", text.empty() ? "" : "; ", ranks_in_words(ranks));
  }
  if (text.empty()) return "";
  return fmt::format("{} in {}", text,
                     compared == 1 ? fmt::format("step {}", steps.front())
                                   : fmt::format("each of the first {} steps", compared));
}

}  // namespace lockstep
