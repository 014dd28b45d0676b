#include "harness/judge/collectives/mismatch_rows.h"

#include <algorithm>

#include "harness/judge/collectives/call_words.h"
#include "harness/judge/ranks/exits.h"
#include "harness/record/collective_words.h"

namespace lockstep {

namespace {

/// Number of collectives shown before the mismatch, and after it.
constexpr std::uint64_t kShownBefore = 5;
constexpr std::uint64_t kShownBehind = 2;

CallOfRank shown_call(const Collective& call, const RankExit* end) {
  CallOfRank shown;
  shown.text = call_in_words(call);
  shown.site = call.site;
  shown.is_open = call.state == CollectiveState::entered;
  if (shown.is_open && end && end->ended_ns) {
    shown.open_s = static_cast<double>(*end->ended_ns - call.entered_ns) * 1e-9;
  }
  return shown;
}

}  // namespace

CollectiveRow shown_row(const CellEvidence& cell, const Group& group, std::uint64_t number) {
  const Row row = row_of(group, number);
  CollectiveRow shown;
  shown.number = static_cast<std::int64_t>(number);
  shown.step = row.empty() ? 0 : row.begin()->second->step;
  shown.calls.resize(static_cast<std::size_t>(cell.evidence->processes()));
  for (const auto& [rank, call] : row) {
    shown.calls[static_cast<std::size_t>(rank)] = shown_call(*call, exit_of(cell.exits, rank));
  }
  shown.differs = row.size() < group.members.size() || classes_of(row, may_meet).size() > 1;
  return shown;
}

std::vector<CollectiveRow> rows_around(const CellEvidence& cell, const Group& group,
                                       std::uint64_t number) {
  std::vector<CollectiveRow> rows;
  const std::uint64_t first = number > kShownBefore ? number - kShownBefore : 1;
  const std::uint64_t last = std::min(group.last(), number + kShownBehind);
  for (std::uint64_t shown = first; shown <= last; ++shown) {
    rows.push_back(shown_row(cell, group, shown));
  }
  return rows;
}

}  // namespace lockstep
