#include "harness/judge/ranks/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

const std::vector<Collective>* calls_of(const CellEvidence& cell, int rank) {
  return cell.evidence ? cell.evidence->collectives(rank) : nullptr;
}

/// Time of a rank's last action; 0 if unknown.
std::int64_t last_act_ns(const CellEvidence& cell, const RankExit& end) {
  std::int64_t last = end.step_began_ns.value_or(0);
  const std::vector<Collective>* const calls = calls_of(cell, end.rank);
  if (!calls) return last;
  for (const Collective& call : *calls) {
    last = std::max({last, call.entered_ns, call.completed_ns});
  }
  return last;
}

/// Time of a late rank from its first call, in seconds; without a call, its limit.
double time_of(const CellEvidence& cell, const RankExit& end) {
  const std::vector<Collective>* const calls = calls_of(cell, end.rank);
  if (!calls || calls->empty()) return *end.limit_s;
  return static_cast<double>(*end.ended_ns - calls->front().entered_ns) / kNanosecondsPerSecond;
}

/// The ranks that did not finish, except those that only lost a peer.
std::vector<RankExit> failed_in(const CellEvidence& cell) {
  std::vector<RankExit> failed = cell.exits;
  std::erase_if(failed, [&](const RankExit& end) {
    return end.kind == ExitKind::finished || has_lost_peer(cell, end);
  });
  return failed;
}

}  // namespace

bool is_late(const RankExit& end) {
  return end.kind == ExitKind::unfinished && end.limit_s && end.ended_ns;
}

bool is_long_ago(const CellEvidence& cell, const RankExit& end, std::int64_t since_ns) {
  const double spent = static_cast<double>(*end.ended_ns - since_ns) / kNanosecondsPerSecond;
  if (spent < kLeastPartOfLimit * *end.limit_s) return false;
  return end.cause == ExitCause::no_progress || spent >= kFairPart * time_of(cell, end);
}

bool is_stuck(const CellEvidence& cell, const RankExit& end) {
  return is_long_ago(cell, end, last_act_ns(cell, end));
}

bool was_training(const CellEvidence& cell) {
  const std::vector<RankExit> failed = failed_in(cell);
  return std::all_of(failed.begin(), failed.end(), is_late) &&
         std::any_of(failed.begin(), failed.end(),
                     [&](const RankExit& end) { return !is_stuck(cell, end); });
}

std::string progress_in_words(const CellEvidence& cell) {
  if (!was_training(cell)) return "";
  const std::vector<RankExit> failed = failed_in(cell);
  const auto furthest =
      std::max_element(failed.begin(), failed.end(),
                       [](const RankExit& a, const RankExit& b) { return a.step < b.step; });
  const std::string planned = cell.steps.value_or(0) > 0 ? fmt::format(" of {}", *cell.steps) : "";
  return fmt::format("still making progress at the limit of {} s, {}: raise --timeout",
                     *furthest->limit_s,
                     furthest->step > 0 ? fmt::format("step {}{}", furthest->step, planned)
                                        : "before the first step");
}

}  // namespace lockstep
