#include "harness/judge/collectives/collectives.h"

#include <algorithm>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/ranks/exits.h"

namespace lockstep {

namespace {

/// Ranks with the same call in the mismatch, by lowest rank.
std::vector<std::vector<int>> groups_of(const CollectiveMismatch& missed) {
  const auto row = std::find_if(missed.rows.begin(), missed.rows.end(),
                                [&](const CollectiveRow& r) { return r.number == missed.number; });
  if (row == missed.rows.end()) return {missed.culprits};
  std::vector<std::vector<int>> groups;
  std::vector<std::string> deeds;
  for (std::size_t rank = 0; rank < row->calls.size(); ++rank) {
    const std::string& text = row->calls[rank].text;
    const auto known = std::find(deeds.begin(), deeds.end(), text);
    const bool is_outside = text.empty() && !is_among(missed.culprits, static_cast<int>(rank));
    if (is_outside) continue;
    if (known == deeds.end()) {
      deeds.push_back(text);
      groups.push_back({static_cast<int>(rank)});
    } else {
      groups[static_cast<std::size_t>(known - deeds.begin())].push_back(static_cast<int>(rank));
    }
  }
  return groups;
}

FindingKind kind_of(MismatchFault fault) {
  switch (fault) {
    case MismatchFault::operation:
    case MismatchFault::order:
    case MismatchFault::tensors:
      return FindingKind::collectives_out_of_order;
    case MismatchFault::size:
    case MismatchFault::dtype:
    case MismatchFault::reduction:
    case MismatchFault::root:
      return FindingKind::collective_arguments_differ;
    case MismatchFault::count:
      return FindingKind::collective_count_differs;
    case MismatchFault::stuck:
      return FindingKind::rank_hung;
    case MismatchFault::missing:
    case MismatchFault::dead:
    case MismatchFault::stopped:
    case MismatchFault::not_started:
      break;
  }
  return FindingKind::collective_never_called;
}

}  // namespace

Finding finding_of_mismatch(const Claim& claim, const CollectiveMismatch& missed) {
  Finding finding;
  finding.claim = claim;
  finding.kind = kind_of(missed.fault);
  finding.step = finding.last_step = missed.step;
  finding.groups = groups_of(missed);
  finding.places = 1;
  finding.sentence = missed.sentence;
  return finding;
}

void judge_collectives(const CellFacts& facts, ClaimResult& result) {
  const CollectiveAnalysis& analysis = facts.analysis;
  result.comparisons = analysis.compared;
  if (!analysis.missed) {
    result.reason = analysis.progress.empty() ? analysis.doubt : analysis.progress;
    if (analysis.compared == 0 && result.reason.empty()) {
      result.reason = "not triggered: no collective was recorded";
    }
    result.verdict = result.reason.empty() ? Verdict::holds : Verdict::undecided;
    return;
  }
  const CollectiveMismatch& missed = *analysis.missed;
  if (!is_difference_of_calls(missed.fault) && missed.fault != MismatchFault::missing) {
    result.reason = "earlier calls match; " + missed.sentence;
    return;
  }
  result.verdict = Verdict::violated;
  result.findings.push_back(finding_of_mismatch(result.claim, missed));
}

}  // namespace lockstep
