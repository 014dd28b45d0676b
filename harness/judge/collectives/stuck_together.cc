#include "harness/judge/collectives/stuck_together.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/judge/collectives/call_words.h"
#include "harness/judge/collectives/mismatch_rows.h"
#include "harness/record/collective_words.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool stand_all_still(const CellEvidence& cell) {
  return !cell.exits.empty() && std::ranges::all_of(cell.exits, [](const RankExit& end) {
    return end.cause == ExitCause::no_progress;
  });
}

/// The lowest number of a call that every rank of the group is in; 0: there is none.
std::uint64_t number_of_open(const Group& group) {
  for (auto number = group.next(0); number; number = group.next(*number)) {
    const Row row = row_of(group, *number);
    const bool is_open = std::ranges::all_of(
        row, [](const auto& entry) { return entry.second->state == CollectiveState::entered; });
    if (is_open && static_cast<int>(row.size()) == group.size) return *number;
  }
  return 0;
}

}  // namespace

std::optional<GroupMismatch> stuck_together(const CellEvidence& cell, const Group& group) {
  if (!cell.is_job || group.size < 2 || !stand_all_still(cell)) return std::nullopt;
  const std::uint64_t number = number_of_open(group);
  if (number == 0) return std::nullopt;
  const Row row = row_of(group, number);
  GroupMismatch miss;
  miss.is_open = true;
  CollectiveMismatch& stuck = miss.mismatch;
  for (const auto& [rank, call] : row) {
    stuck.waiting.push_back(rank);
    miss.came_ns[rank] = call->entered_ns;
  }
  stuck.fault = MismatchFault::stuck;
  stuck.group = group.name;
  stuck.number = static_cast<std::int64_t>(number);
  stuck.step = row.begin()->second->step;
  stuck.rows = {shown_row(cell, group, number)};
  stuck.sentence = fmt::format(
      "{} are all in {}, {}, and none leaves it: another root or operation on some of them, or the "
      "network.",
      ranks_in_words(stuck.waiting), place_in_words(group, number, stuck.step),
      call_with_site(*row.begin()->second));
  return miss;
}

}  // namespace lockstep
