#include "harness/judge/collectives/absences.h"

#include <algorithm>

#include "harness/judge/ranks/exits.h"

namespace lockstep {

MismatchFault absence_of(const RankExit* end) {
  if (!end) return MismatchFault::missing;
  switch (end->kind) {
    case ExitKind::finished:
      return MismatchFault::count;
    case ExitKind::raised:
    case ExitKind::exited:
    case ExitKind::signalled:
    case ExitKind::unstarted:
      return MismatchFault::dead;
    case ExitKind::unfinished:
      if (end->cause == ExitCause::stopped) return MismatchFault::stopped;
      return end->cause == ExitCause::unseen ? MismatchFault::dead : MismatchFault::missing;
  }
  return MismatchFault::missing;
}

bool is_victim(const CellEvidence& cell, const RankExit* end) {
  return end && has_lost_peer(cell, *end);
}

bool any_failed_by_itself(const CellEvidence& cell) {
  return std::any_of(cell.exits.begin(), cell.exits.end(), [&](const RankExit& end) {
    return end.kind != ExitKind::finished && end.kind != ExitKind::unfinished &&
           !has_lost_peer(cell, end);
  });
}

std::pair<MismatchFault, std::vector<int>> absent(const CellEvidence& cell,
                                                  const std::vector<int>& ranks) {
  for (const MismatchFault fault : {MismatchFault::dead, MismatchFault::stopped,
                                    MismatchFault::count, MismatchFault::missing}) {
    std::vector<int> found;
    for (const int rank : ranks) {
      const RankExit* end = exit_of(cell.exits, rank);
      if (absence_of(end) == fault && !is_victim(cell, end)) found.push_back(rank);
    }
    if (!found.empty()) return {fault, found};
  }
  return {MismatchFault::dead, ranks};
}

const Collective* open_elsewhere(const CellEvidence& cell, int rank, const std::string& group) {
  const std::vector<Collective>* log = cell.evidence->collectives(rank);
  if (!log) return nullptr;
  bool is_last_open = true;
  const auto found = std::find_if(log->rbegin(), log->rend(), [&](const Collective& call) {
    if (call.state == CollectiveState::completed) return false;
    const bool is_elsewhere = call.group != group || (call.number == 0 && call.operation != kJoin);
    const bool was_last_open = std::exchange(is_last_open, false);
    return is_elsewhere && (call.state == CollectiveState::entered || was_last_open);
  });
  return found == log->rend() ? nullptr : &*found;
}

}  // namespace lockstep
