#include "harness/judge/collectives/call_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/record/collective_words.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

std::string place_in_words(const Group& group, std::uint64_t number, std::int64_t step) {
  const std::string when = step > 0 ? fmt::format(" in step {}", step) : "";
  return fmt::format("collective {} of the group {}{}", number, group.name, when);
}

std::string call_with_site(const Collective& call) {
  return call_in_words(call) + (call.site.empty() ? "" : fmt::format(" at {}", call.site));
}

std::string last_act(const Group& group, int rank, const Collective* elsewhere) {
  if (elsewhere) {
    const bool has_failed = elsewhere->state == CollectiveState::failed;
    return fmt::format("rank {} {} {} of the group {}", rank, has_failed ? "failed in" : "is in",
                       call_with_site(*elsewhere), elsewhere->group);
  }
  const auto member = group.members.find(rank);
  if (member == group.members.end()) return fmt::format("rank {} never joined the group", rank);
  if (member->second.empty()) return fmt::format("rank {} had called nothing there before", rank);
  const auto& [number, call] = *member->second.rbegin();
  const bool has_ended = call->state == CollectiveState::completed;
  return fmt::format("the last call of rank {} there was collective {}, {}, which {}", rank, number,
                     call_with_site(*call), has_ended ? "completed" : "did not complete");
}

std::string calls_in_words(const Row& row, const std::vector<std::vector<int>>& classes) {
  std::vector<std::string> parts;
  for (const std::vector<int>& ranks : classes) {
    parts.push_back(fmt::format("{} {} {}", ranks_in_words(ranks),
                                ranks.size() == 1 ? "calls" : "call",
                                call_with_site(*row.at(ranks.front()))));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace lockstep
