#include "harness/judge/endings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/collectives/collectives.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/ranks/exits.h"
#include "harness/judge/ranks/progress.h"

namespace lockstep {

namespace {

Finding finding_of(const Claim& claim, const RankEnd& end) {
  Finding finding;
  finding.claim = claim;
  finding.step = end.step;
  finding.last_step = end.step;
  finding.places = 1;
  finding.failure = RankFailure{end.rank, how(end), end.error, end.last_output, std::nullopt};
  finding.sentence = fmt::format("rank {} {}", end.rank, how(end));
  if (end.step > 0) finding.sentence += fmt::format(" in step {}", end.step);
  if (!end.error.empty()) finding.sentence += ": " + first_sentence(end.error);
  if (!finding.sentence.ends_with('.')) finding.sentence += ".";
  return finding;
}

std::string capitalised(std::string sentence) {
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

/// Of ranks that missed meetings ended, the one whose words tell most: not those of a rank that
/// lost a peer.
const RankEnd* telling(const std::vector<const RankEnd*>& victims) {
  const auto has_words = [](const RankEnd* end) {
    return end->ending != Ending::unfinished && end->cause != ExitCause::lost_peer;
  };
  const auto found = std::find_if(victims.begin(), victims.end(), has_words);
  if (found != victims.end()) return *found;
  return victims.empty() ? nullptr : victims.front();
}

/// The ranks that a missed meeting ended; of the first one, where it has none of its own, any that
/// is explained.
const RankEnd* telling_victim(const CellEvidence& cell, const Meetings& meetings,
                              const MissedMeeting& missed) {
  std::vector<const RankEnd*> own, any;
  for (const RankEnd& end : cell.ends) {
    if (end.ending == Ending::finished || !is_explained(meetings, end, cell)) continue;
    const bool is_own = is_among(missed.waiting, end.rank) || is_among(missed.culprits, end.rank);
    (is_own ? own : any).push_back(&end);
  }
  const bool is_first = &missed == &meetings.blocking.front();
  return telling(own.empty() && is_first ? any : own);
}

/// A meeting that ranks missed ended them: one finding, about those that did not come to it.
void add_meeting(const CellEvidence& cell, const Meetings& meetings, const MissedMeeting& missed,
                 ClaimResult& result) {
  const RankEnd* victim = telling_victim(cell, meetings, missed);
  if (!victim) return;
  Finding finding = finding_of_meeting(result.claim, missed);
  finding.failure =
      RankFailure{victim->rank, how(*victim), victim->error, victim->last_output, std::nullopt};
  finding.sentence =
      capitalised(missed.sentence) + " " + capitalised(finding_of(result.claim, *victim).sentence);
  result.findings.push_back(std::move(finding));
}

/// The meeting that others did not come out of because of a rank; empty: there is none.
std::string meeting_without(const Meetings& meetings, int rank) {
  for (const MissedMeeting& missed : meetings.blocking) {
    if (is_among(missed.culprits, rank)) return capitalised(missed.sentence);
  }
  const bool is_missed = meetings.missed && is_among(meetings.missed->culprits, rank);
  return is_missed ? capitalised(meetings.missed->sentence) : "";
}

}  // namespace

void judge_endings(const CellEvidence& cell, const CellFacts& facts, ClaimResult& result) {
  if (cell.ends.empty()) {
    result.reason = "not triggered: how the ranks ended is not known";
    return;
  }
  const std::size_t processes =
      cell.evidence ? static_cast<std::size_t>(cell.evidence->processes()) : 0;
  if (cell.ends.size() < processes) {
    result.reason = fmt::format("how {} of {} ranks ended is not known",
                                processes - cell.ends.size(), processes);
    return;
  }
  result.comparisons = static_cast<std::int64_t>(cell.ends.size());
  const Meetings& meetings = facts.meetings;
  for (const MissedMeeting& missed : meetings.blocking) {
    if (is_program_fault(missed)) add_meeting(cell, meetings, missed, result);
  }
  for (const RankEnd* end : facts.unexplained) {
    Finding finding = finding_of(result.claim, *end);
    const std::string meeting = meeting_without(meetings, end->rank);
    if (!meeting.empty()) finding.sentence += " " + meeting;
    result.findings.push_back(std::move(finding));
  }
  if (!result.findings.empty()) {
    result.verdict = Verdict::violated;
  } else if (meetings.progress.empty()) {
    result.verdict = Verdict::holds;
  } else {
    result.reason = meetings.progress;
  }
}

}  // namespace lockstep
