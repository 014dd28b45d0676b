#include "harness/verdict/collective_lanes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/collective_words.h"

namespace lockstep {

namespace {

constexpr std::int64_t kBefore = 8;  ///< calls before the mismatch, or without one the last ones
constexpr std::int64_t kAfter = 4;
constexpr std::size_t kMostLanes = 64;

/// The numbers of a group that are shown.
struct LaneWindow {
  std::string group;
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool includes(const Collective& call) const {
    const auto number = static_cast<std::int64_t>(call.number);
    return call.group == group && number >= std::max<std::int64_t>(first, 1) && number <= last;
  }
};

/// The largest group, and of these the one with most calls.
LaneWindow last_calls(const StepReader& evidence) {
  std::map<std::string, std::pair<int, std::int64_t>> groups;
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::vector<Collective>* const calls = evidence.collectives(rank);
    if (!calls) continue;
    for (const Collective& call : *calls) {
      auto& [size, number] = groups[call.group];
      size = std::max(size, call.group_size);
      number = std::max(number, static_cast<std::int64_t>(call.number));
    }
  }
  const auto largest = std::max_element(groups.begin(), groups.end(),
                                        [](auto& a, auto& b) { return a.second < b.second; });
  if (largest == groups.end()) return {};
  const std::int64_t last = largest->second.second;
  return {largest->first, last - kBefore + 1, last};
}

std::vector<LaneCall> calls_in(const LaneWindow& window, const std::vector<Collective>& calls) {
  std::vector<LaneCall> found;
  for (const Collective& call : calls) {
    if (!window.includes(call)) continue;
    found.push_back({static_cast<std::int64_t>(call.number), call.step, call_in_words(call),
                     call.site, call.state == CollectiveState::entered});
  }
  return found;
}

bool is_concerned(const CollectiveMismatch& mismatch, int rank) {
  const auto includes = [&](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  return includes(mismatch.culprits) || includes(mismatch.waiting);
}

}  // namespace

CollectiveLanes collective_lanes_of(const StepReader& evidence,
                                    const std::optional<CollectiveMismatch>& mismatch) {
  const LaneWindow window =
      mismatch ? LaneWindow{mismatch->group, mismatch->number - kBefore, mismatch->number + kAfter}
               : last_calls(evidence);
  CollectiveLanes found{window.group, {}, 0};
  for (int rank = 0; rank < evidence.processes(); ++rank) {
    const std::vector<Collective>* const log = evidence.collectives(rank);
    std::vector<LaneCall> calls = log ? calls_in(window, *log) : std::vector<LaneCall>{};
    if (calls.empty() && !(mismatch && is_concerned(*mismatch, rank))) continue;
    const auto same = std::find_if(found.lanes.begin(), found.lanes.end(),
                                   [&](const Lane& lane) { return lane.calls == calls; });
    if (same != found.lanes.end()) {
      same->ranks.push_back(rank);
    } else if (found.lanes.size() < kMostLanes) {
      found.lanes.push_back({{rank}, std::move(calls)});
    } else {
      ++found.ranks_left_out;
    }
  }
  return found;
}

}  // namespace lockstep
