#include "harness/verdict/cost.h"

#include <algorithm>

#include "harness/judge/values/memory_limit.h"
#include "harness/record/collective_log.h"

namespace lockstep {

namespace {

/// Whether a scenario measured it. What is noted of devices at other times is no peak.
bool is_peak(Kind kind, Phase phase) {
  return kind == Kind::memory && phase == Phase::post_backward;
}

}  // namespace

std::optional<Cost> cost_of(const std::filesystem::path& folder, const std::vector<RankExit>& exits,
                            std::int64_t steps) {
  Cost most;
  std::size_t logs = 0;
  for (const RankExit& end : exits) {
    if (end.kind != ExitKind::finished) return std::nullopt;
    if (end.step_s) most.step_s = std::max(most.step_s.value_or(0), *end.step_s);
    const auto log = collective_log_file(folder, end.rank);
    if (!std::filesystem::exists(log)) continue;
    ++logs;
    double collectives = 0;
    double bytes = 0;
    for (const Collective& collective : read_collective_log(log)) {
      if (collective.step == 0 || collective.operation == kJoin) continue;
      ++collectives;
      bytes += static_cast<double>(collective.bytes);
    }
    most.collectives = std::max(most.collectives, collectives / static_cast<double>(steps));
    most.bytes = std::max(most.bytes, bytes / static_cast<double>(steps));
  }
  if (logs != 0 && logs != exits.size()) return std::nullopt;
  return most;
}

MemoryPeak::MemoryPeak(const StepReader& evidence)
    : is_observed_(std::ranges::any_of(evidence.tensors(), [](const auto& observed) {
        return is_peak(observed.tensor.kind, observed.tensor.phase);
      })) {}

void MemoryPeak::see(const StepView& step) {
  for (int rank = 0; rank < step.processes(); ++rank) {
    for (const Observation& observation : step.observations(rank)) {
      if (!is_peak(observation.kind, observation.phase)) continue;
      const auto bytes = bytes_of(step.kept(rank, observation));
      if (bytes) most_ = std::max(most_.value_or(0), *bytes);
    }
  }
}

}  // namespace lockstep
