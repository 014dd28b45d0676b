#include "harness/judge/cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/collective_log.h"

namespace lockstep {

std::optional<Cost> cost_of(const std::filesystem::path& folder, const std::vector<RankEnd>& ends,
                            std::int64_t steps) {
  Cost most;
  std::size_t logs = 0;
  for (const RankEnd& end : ends) {
    if (end.ending != Ending::finished) return std::nullopt;
    if (end.step_s) most.step_s = std::max(most.step_s.value_or(0), *end.step_s);
    const auto log = folder / fmt::format("collectives-{}.bin", end.rank);
    if (!std::filesystem::exists(log)) continue;
    ++logs;
    double collectives = 0;
    double bytes = 0;
    for (const Collective& collective : read_collective_log(log)) {
      if (collective.step == 0) continue;
      ++collectives;
      bytes += static_cast<double>(collective.bytes);
    }
    most.collectives = std::max(most.collectives, collectives / static_cast<double>(steps));
    most.bytes = std::max(most.bytes, bytes / static_cast<double>(steps));
  }
  if (logs != 0 && logs != ends.size()) return std::nullopt;
  return most;
}

}  // namespace lockstep
