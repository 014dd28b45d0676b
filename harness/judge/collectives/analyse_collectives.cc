#include "harness/judge/collectives/analyse_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

#include "harness/judge/collectives/absences.h"
#include "harness/judge/collectives/analyse_group.h"
#include "harness/judge/collectives/stuck_together.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"
#include "harness/judge/ranks/progress.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool is_in(const CollectiveMismatch& missed, int rank) {
  return is_among(missed.waiting, rank) || is_among(missed.culprits, rank);
}

/// Open mismatches, and which of them wait for which.
class OpenMisses {
 public:
  OpenMisses(std::vector<GroupMismatch> misses, const CellEvidence& cell)
      : misses_(std::move(misses)), cell_(cell), causes_(misses_.size()) {
    for (std::size_t i = 0; i < misses_.size(); ++i) causes_[i] = causes_of(misses_[i]);
  }

  /// The root causes: mismatches that wait for no other, earliest first. A cycle becomes one
  /// mismatch that names all its ranks.
  std::vector<CollectiveMismatch> roots() const {
    std::vector<GroupMismatch> roots;
    std::vector<bool> is_told(misses_.size());
    for (std::size_t i = 0; i < misses_.size(); ++i) {
      if (causes_[i].empty()) roots.push_back(misses_[i]);
    }
    for (std::size_t i = 0; i < misses_.size(); ++i) {
      if (is_told[i] || reaches_root(i)) continue;
      const std::vector<std::size_t> circle = reached_from(i);
      for (const std::size_t each : circle) is_told[each] = true;
      is_told[i] = true;
      roots.push_back(merged(circle));
    }
    return shown_once(std::move(roots));
  }

 private:
  /// The mismatches that the awaited ranks are in. Empty if one of these ranks is in no other.
  std::vector<std::size_t> causes_of(const GroupMismatch& miss) const {
    std::vector<std::size_t> causes;
    if (is_difference_of_calls(miss.mismatch.fault)) return causes;
    for (const int culprit : miss.mismatch.culprits) {
      const auto cause = place_of(culprit, miss.mismatch.group);
      if (!cause) return {};
      causes.push_back(*cause);
    }
    return causes;
  }

  /// The mismatch of another group that a rank is in.
  std::optional<std::size_t> place_of(int rank, const std::string& group) const {
    const Collective* const call = open_elsewhere(cell_, rank, group);
    if (!call || call->group == group) return std::nullopt;
    for (std::size_t i = 0; i < misses_.size(); ++i) {
      const CollectiveMismatch& missed = misses_[i].mismatch;
      const bool is_there = missed.group == call->group && is_in(missed, rank) &&
                            static_cast<std::int64_t>(call->number) >= missed.number;
      if (is_there) return i;
    }
    return std::nullopt;
  }

  /// All mismatches that one waits for, directly or not; itself only in a cycle.
  std::vector<std::size_t> reached_from(std::size_t start) const {
    std::vector<std::size_t> reached, ahead = causes_[start];
    while (!ahead.empty()) {
      const std::size_t next = ahead.back();
      ahead.pop_back();
      if (std::find(reached.begin(), reached.end(), next) != reached.end()) continue;
      reached.push_back(next);
      ahead.insert(ahead.end(), causes_[next].begin(), causes_[next].end());
    }
    std::sort(reached.begin(), reached.end());
    return reached;
  }

  bool reaches_root(std::size_t start) const {
    const std::vector<std::size_t> reached = reached_from(start);
    return causes_[start].empty() ||
           std::any_of(reached.begin(), reached.end(),
                       [&](std::size_t each) { return causes_[each].empty(); });
  }

  /// One mismatch whose culprits are all ranks of a cycle.
  GroupMismatch merged(const std::vector<std::size_t>& circle) const;

  /// Earliest first, each cause once.
  std::vector<CollectiveMismatch> shown_once(std::vector<GroupMismatch> roots) const;

  std::vector<GroupMismatch> misses_;
  const CellEvidence& cell_;
  std::vector<std::vector<std::size_t>> causes_;  ///< by mismatch
};

/// By the clock of a rank that called both, if there is one; otherwise by the step.
bool is_earlier(const GroupMismatch& a, const GroupMismatch& b) {
  for (const auto& [rank, moment] : a.came_ns) {
    const auto other = b.came_ns.find(rank);
    if (other != b.came_ns.end()) return moment < other->second;
  }
  return a.mismatch.step < b.mismatch.step;
}

/// Different calls come first, because other ranks may have waited earlier for ranks that a
/// difference ended. Then come calls that a live rank never made.
bool comes_before(const GroupMismatch& a, const GroupMismatch& b) {
  const auto weight = [](const GroupMismatch& miss) {
    if (is_difference_of_calls(miss.mismatch.fault)) return 0;
    return miss.mismatch.fault == MismatchFault::missing ? 1 : 2;
  };
  return weight(a) == weight(b) ? is_earlier(a, b) : weight(a) < weight(b);
}

GroupMismatch OpenMisses::merged(const std::vector<std::size_t>& circle) const {
  std::vector<GroupMismatch> misses;
  for (const std::size_t each : circle) misses.push_back(misses_[each]);
  GroupMismatch first = *std::min_element(misses.begin(), misses.end(), comes_before);
  std::vector<int> ranks;
  for (const GroupMismatch& miss : misses) {
    ranks.insert(ranks.end(), miss.mismatch.culprits.begin(), miss.mismatch.culprits.end());
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  CollectiveMismatch& mismatch = first.mismatch;
  mismatch.culprits = ranks;
  std::erase_if(mismatch.waiting, [&](int rank) { return is_among(ranks, rank); });
  mismatch.sentence = fmt::format("{} wait for each other in several groups: {}",
                                  ranks_in_words(ranks), mismatch.sentence);
  return first;
}

std::vector<CollectiveMismatch> OpenMisses::shown_once(std::vector<GroupMismatch> roots) const {
  std::vector<CollectiveMismatch> told;
  if (roots.empty()) return told;
  const auto first = std::min_element(roots.begin(), roots.end(), comes_before);
  std::rotate(roots.begin(), first, first + 1);
  const auto about = [](const CollectiveMismatch& missed) {
    return missed.culprits.empty() ? missed.waiting : missed.culprits;
  };
  for (GroupMismatch& miss : roots) {
    const std::vector<int> ranks = about(miss.mismatch);
    const bool is_known =
        std::any_of(told.begin(), told.end(), [&](const CollectiveMismatch& other) {
          const std::vector<int> known = about(other);
          return std::includes(known.begin(), known.end(), ranks.begin(), ranks.end());
        });
    if (!is_known) told.push_back(std::move(miss.mismatch));
  }
  return told;
}

/// Whether a rank never completed the very call of `missed`.
bool is_in_call(const CollectiveMismatch& missed, const CellEvidence& cell, int rank) {
  const std::vector<Collective>* log = cell.evidence->collectives(rank);
  return log && std::any_of(log->begin(), log->end(), [&](const Collective& call) {
           return call.group == missed.group && call.state != CollectiveState::completed &&
                  static_cast<std::int64_t>(call.number) == missed.number;
         });
}

/// Whether `rank`, by its log, waits for ranks of `known` in a point-to-point call, or is in a
/// later collective of a group in `missed`.
bool waits_behind(const CellEvidence& cell, int rank, const std::vector<int>& known,
                  const std::vector<CollectiveMismatch>& missed) {
  const std::vector<Collective>* log = cell.evidence->collectives(rank);
  return log && std::any_of(log->begin(), log->end(), [&](const Collective& call) {
           if (call.state == CollectiveState::completed) return false;
           if (call.number == 0 && call.operation != kJoin) return is_among(known, call.root);
           return std::any_of(missed.begin(), missed.end(), [&](const CollectiveMismatch& m) {
             return m.group == call.group && static_cast<std::int64_t>(call.number) >= m.number;
           });
         });
}

bool is_same_call(const CollectiveMismatch& a, const CollectiveMismatch& b) {
  return a.group == b.group && a.number == b.number;
}

/// The earliest of `missed` that does not follow from another, regardless of when the others began.
std::optional<CollectiveMismatch> first_of(std::vector<GroupMismatch> missed,
                                           const std::vector<CollectiveMismatch>& blocking) {
  const auto root_of = [&](const CollectiveMismatch& mismatch) {
    // In reverse, because a merged mismatch of the same call comes later.
    return std::find_if(blocking.rbegin(), blocking.rend(), [&](const CollectiveMismatch& root) {
      return is_same_call(root, mismatch);
    });
  };
  std::erase_if(missed, [&](const GroupMismatch& miss) {
    return miss.is_open && !is_difference_of_calls(miss.mismatch.fault) &&
           root_of(miss.mismatch) == blocking.rend();
  });
  const auto first = std::min_element(missed.begin(), missed.end(), comes_before);
  if (first == missed.end()) return std::nullopt;
  const auto root = root_of(first->mismatch);
  return root == blocking.rend() ? first->mismatch : *root;
}

bool was_interrupted(const CollectiveMismatch& missed, const CellEvidence& cell) {
  const auto was_ended = [&](int rank) {
    const RankExit* const end = exit_of(cell.exits, rank);
    return end && end->cause == ExitCause::interrupted;
  };
  return std::any_of(missed.culprits.begin(), missed.culprits.end(), was_ended) ||
         std::any_of(missed.waiting.begin(), missed.waiting.end(), was_ended);
}

/// Whether missing ranks are known to stay away instead of being slow. Among waiting ranks ended at
/// their limit, one must have waited for long enough. The missing ranks must have been stuck
/// meanwhile. Faults that do not depend on waiting time need no such test. An interruption leaves
/// the answer unknown.
bool is_for_good(const GroupMismatch& miss, const CellEvidence& cell) {
  const CollectiveMismatch& missed = miss.mismatch;
  const bool is_about_time =
      missed.fault == MismatchFault::missing || missed.fault == MismatchFault::not_started;
  if (!is_about_time) return true;
  if (was_interrupted(missed, cell)) return false;
  const auto has_waited = [&](int rank) {
    const RankExit* const end = exit_of(cell.exits, rank);
    return !end || !is_late(*end) || is_long_ago(cell, *end, miss.came_ns.at(rank));
  };
  const auto is_idle = [&](int rank) {
    const RankExit* const end = exit_of(cell.exits, rank);
    return !end || !is_late(*end) || is_stuck(cell, *end);
  };
  const std::vector<int>& waiting = missed.waiting;
  return (waiting.empty() || std::any_of(waiting.begin(), waiting.end(), has_waited)) &&
         std::all_of(missed.culprits.begin(), missed.culprits.end(), is_idle);
}

/// "; rank 1 had waited 0.41 s for rank 0 in collective 214 of the group world".
std::string wait_in_words(const GroupMismatch& miss, const CellEvidence& cell) {
  const CollectiveMismatch& missed = miss.mismatch;
  if (missed.waiting.empty()) return "";
  const int rank = missed.waiting.front();
  const RankExit* const end = exit_of(cell.exits, rank);
  if (!end || !is_late(*end)) return "";
  const double waited = static_cast<double>(*end->ended_ns - miss.came_ns.at(rank)) * 1e-9;
  const std::string whom = missed.culprits.empty() ? "" : " for " + ranks_in_words(missed.culprits);
  const std::string where =
      missed.number > 0 ? fmt::format("in collective {} of", missed.number) : "to join";
  return fmt::format("; {} had waited {:.2g} s{} {} the group {}", ranks_in_words(missed.waiting),
                     waited, whom, where, missed.group);
}

std::optional<GroupMismatch> first_stuck(const CellEvidence& cell) {
  for (const Group& group : groups_of(*cell.evidence)) {
    if (auto stuck = stuck_together(cell, group)) return stuck;
  }
  return std::nullopt;
}

/// Drops a mismatch that was not yet a hang when ranks were ended, and records that.
void drop_unproven(std::optional<GroupMismatch>& miss, const CellEvidence& cell,
                   CollectiveAnalysis& all) {
  if (!miss || is_for_good(*miss, cell)) return;
  if (!all.progress.empty()) all.progress += wait_in_words(*miss, cell);
  if (all.doubt.empty() && was_interrupted(miss->mismatch, cell)) {
    all.doubt = "the ranks were interrupted while they waited for each other";
  }
  miss.reset();
}

/// The first mismatch of each group, and those that ranks still wait in.
struct Mismatches {
  std::vector<GroupMismatch> missed;
  std::vector<GroupMismatch> open;
};

/// Without any, the group in which all ranks are stuck together. Records in `all` how much was
/// compared, and doubts.
Mismatches mismatches_of_groups(const CellEvidence& cell, CollectiveAnalysis& all) {
  Mismatches mismatches;
  auto& [missed, open] = mismatches;
  for (const Group& group : groups_of(*cell.evidence)) {
    GroupAnalysis found = analyse_group(cell, group);
    all.compared += found.compared;
    if (all.doubt.empty()) all.doubt = found.doubt;
    drop_unproven(found.first, cell, all);
    drop_unproven(found.hang, cell, all);
    if (found.first && found.first->is_open) open.push_back(*found.first);
    if (found.first) missed.push_back(std::move(*found.first));
    if (found.hang) open.push_back(std::move(*found.hang));
  }
  if (!missed.empty() || !open.empty()) return mismatches;
  if (auto stuck = first_stuck(cell)) {
    open.push_back(*stuck);
    missed.push_back(std::move(*stuck));
  }
  return mismatches;
}

}  // namespace

bool is_program_fault(const CollectiveMismatch& missed) {
  return is_difference_of_calls(missed.fault) || missed.fault == MismatchFault::missing ||
         missed.fault == MismatchFault::not_started || missed.fault == MismatchFault::stuck;
}

CollectiveAnalysis analyse_collectives(const CellEvidence& cell) {
  CollectiveAnalysis all;
  all.progress = progress_in_words(cell);
  if (!cell.evidence) return all;
  Mismatches found = mismatches_of_groups(cell, all);
  for (const GroupMismatch& miss : found.open) all.open.push_back(miss.mismatch);
  all.blocking = OpenMisses(std::move(found.open), cell).roots();
  all.missed = first_of(std::move(found.missed), all.blocking);
  return all;
}

bool is_explained(const CollectiveAnalysis& analysis, const RankExit& end,
                  const CellEvidence& cell) {
  const auto any = [&](const auto& is_it) {
    return std::any_of(analysis.blocking.begin(), analysis.blocking.end(),
                       [&](const CollectiveMismatch& missed) {
                         return is_program_fault(missed) && is_it(missed);
                       });
  };
  if (!any([](const CollectiveMismatch&) { return true; })) return false;
  if (end.cause == ExitCause::stopped) return false;
  if (end.kind == ExitKind::unfinished && end.cause != ExitCause::unseen) {
    std::vector<int> known;
    for (const CollectiveMismatch& missed : analysis.open) {
      if (is_in(missed, end.rank)) return true;
      known.insert(known.end(), missed.waiting.begin(), missed.waiting.end());
      known.insert(known.end(), missed.culprits.begin(), missed.culprits.end());
    }
    return waits_behind(cell, end.rank, known, analysis.open);
  }
  if (has_lost_peer(cell, end)) return true;
  // In a call that does not match, Gloo aborts the process and the MPI backend raises.
  const bool may_have_aborted =
      end.cause == ExitCause::unseen || (end.kind == ExitKind::signalled && end.code == SIGABRT);
  return (may_have_aborted || end.kind == ExitKind::raised) &&
         any([&](const CollectiveMismatch& missed) {
           return is_difference_of_calls(missed.fault) && missed.fault != MismatchFault::count &&
                  is_in_call(missed, cell, end.rank);
         });
}

}  // namespace lockstep
