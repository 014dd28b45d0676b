#include <algorithm>

#include "harness/judge/meetings.h"
#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

/// Ranks that called the same, by lowest rank: who parted, and from whom.
std::vector<std::vector<int>> groups_of(const MissedMeeting& missed, int world_size) {
  std::vector<std::vector<int>> groups(2);
  for (int rank = 0; rank < world_size; ++rank) {
    const bool is_culprit =
        std::find(missed.culprits.begin(), missed.culprits.end(), rank) != missed.culprits.end();
    groups[is_culprit ? 1 : 0].push_back(rank);
  }
  if (groups[0].empty()) groups.erase(groups.begin());
  return groups;
}

}  // namespace

Finding finding_of_meeting(const Claim& claim, const MissedMeeting& missed, int world_size) {
  Finding finding;
  finding.claim = claim;
  finding.step = finding.last_step = missed.step;
  finding.groups = groups_of(missed, world_size);
  finding.places = 1;
  finding.sentence = missed.sentence;
  return finding;
}

void judge_collectives(const Case& the_case, ClaimResult& result) {
  const Meetings meetings = meetings_of(the_case);
  result.comparisons = meetings.compared;
  if (!meetings.missed) {
    result.reason = meetings.doubt;
    if (meetings.compared == 0) result.reason = "not triggered: no collective is on record";
    result.verdict = result.reason.empty() ? Verdict::holds : Verdict::undecided;
    return;
  }
  const MissedMeeting& missed = *meetings.missed;
  if (!is_mismatch(missed.fault) && missed.fault != MeetingFault::missing) {
    result.reason = "they matched up to where " + missed.sentence;
    return;
  }
  result.verdict = Verdict::violated;
  result.findings.push_back(finding_of_meeting(result.claim, missed, the_case.world_size));
}

}  // namespace lockstep
