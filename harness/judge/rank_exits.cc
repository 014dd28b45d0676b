#include "harness/judge/rank_exits.h"

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
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

FindingKind kind_of(const RankExit& end) {
  switch (end.kind) {
    case ExitKind::raised:
      return FindingKind::rank_raised_error;
    case ExitKind::signalled:
      return FindingKind::rank_killed;
    case ExitKind::unfinished:
      return end.cause == ExitCause::unseen ? FindingKind::rank_disappeared
                                            : FindingKind::rank_hung;
    case ExitKind::unstarted:
      return FindingKind::rank_not_started;
    case ExitKind::finished:
    case ExitKind::exited:
      break;
  }
  return FindingKind::rank_exited_early;
}

Finding finding_of(const Claim& claim, const RankExit& end, bool is_job) {
  Finding finding;
  finding.claim = claim;
  finding.kind = kind_of(end);
  finding.step = end.step;
  finding.last_step = end.step;
  finding.places = 1;
  finding.failure = RankFailure{end.rank,        exit_in_words(end), end.error,
                                end.last_output, std::nullopt,       end.place};
  finding.sentence = fmt::format("rank {} {}", end.rank, exit_in_words(end));
  if (end.step > 0 || end.during != StepPart::unknown) finding.sentence += " " + end_in_words(end);
  if (!end.error.empty()) {
    finding.sentence += ": " + (is_job ? telling_sentences(end.error) : first_sentence(end.error));
  }
  if (!finding.sentence.ends_with('.')) finding.sentence += ".";
  return finding;
}

std::string capitalised(std::string sentence) {
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence;
}

/// The most informative exit among ranks that mismatches ended; not that of a rank that lost a
/// peer.
const RankExit* telling(const std::vector<const RankExit*>& victims) {
  const auto has_words = [](const RankExit* end) {
    return end->kind != ExitKind::unfinished && end->cause != ExitCause::lost_peer;
  };
  const auto found = std::find_if(victims.begin(), victims.end(), has_words);
  if (found != victims.end()) return *found;
  return victims.empty() ? nullptr : victims.front();
}

/// The rank that a mismatch ended. If the first mismatch ended none itself, any explained rank.
const RankExit* telling_victim(const CellEvidence& cell, const CollectiveAnalysis& analysis,
                               const CollectiveMismatch& missed) {
  std::vector<const RankExit*> own, any;
  for (const RankExit& end : cell.exits) {
    if (end.kind == ExitKind::finished || !is_explained(analysis, end, cell)) continue;
    const bool is_own = is_among(missed.waiting, end.rank) || is_among(missed.culprits, end.rank);
    (is_own ? own : any).push_back(&end);
  }
  const bool is_first = &missed == &analysis.blocking.front();
  return telling(own.empty() && is_first ? any : own);
}

/// A mismatch ended ranks: one finding, about those that never called it.
void add_mismatch(const CellEvidence& cell, const CollectiveAnalysis& analysis,
                  const CollectiveMismatch& missed, ClaimResult& result) {
  const RankExit* victim = telling_victim(cell, analysis, missed);
  if (!victim) return;
  Finding finding = finding_of_mismatch(result.claim, missed);
  finding.failure = RankFailure{victim->rank,        exit_in_words(*victim), victim->error,
                                victim->last_output, std::nullopt,           victim->place};
  finding.sentence = capitalised(missed.sentence) + " " +
                     capitalised(finding_of(result.claim, *victim, cell.is_job).sentence);
  result.findings.push_back(std::move(finding));
}

/// The collective in which other ranks wait for a rank; empty: none.
std::string mismatch_without(const CollectiveAnalysis& analysis, int rank) {
  for (const CollectiveMismatch& missed : analysis.blocking) {
    if (is_among(missed.culprits, rank)) return capitalised(missed.sentence);
  }
  const bool is_missed = analysis.missed && is_among(analysis.missed->culprits, rank);
  return is_missed ? capitalised(analysis.missed->sentence) : "";
}

/// "ranks 2,3 ran on other machines"; empty: none did.
std::string other_machines_in_words(const CellEvidence& cell) {
  std::vector<int> ranks;
  for (const RankExit& end : cell.exits) {
    if (end.cause == ExitCause::elsewhere) ranks.push_back(end.rank);
  }
  return ranks.empty() ? "" : ranks_in_words(ranks) + " ran on other machines";
}

/// Sentence about ranks whose end says nothing; empty: there is none.
std::string unknown_ends_in_words(const CellEvidence& cell) {
  const auto end = std::find_if(cell.exits.begin(), cell.exits.end(), [](const RankExit& one) {
    return one.cause == ExitCause::interrupted;
  });
  if (end == cell.exits.end()) return other_machines_in_words(cell);
  const std::string where = end_in_words(*end);
  if (cell.is_job && !end->detail.empty()) {  // its hook failed
    return fmt::format("rank {} {}: {}", end->rank, where, end->detail);
  }
  return fmt::format("rank {} was interrupted {}", end->rank, where);
}

/// The ranks that the leaver left alone, ascending.
std::vector<int> left_alone(const CellFacts& facts) {
  std::vector<int> ranks;
  for (const RankExit* end : facts.unexplained) ranks.push_back(end->rank);
  return ranks;
}

/// A rank left the others: one finding, with the error of the first one that lost it.
void add_leaver(const CellFacts& facts, ClaimResult& result) {
  const RankExit& lost = *facts.unexplained.front();
  Finding finding = finding_of(result.claim, lost, facts.is_job);
  finding.kind = FindingKind::rank_exited_early;
  finding.groups = {{facts.leaver->rank}, left_alone(facts)};
  finding.sentence = leaving_in_words(facts) + ". " + capitalised(std::move(finding.sentence));
  result.findings.push_back(std::move(finding));
}

}  // namespace

std::string leaving_in_words(const CellFacts& facts) {
  const RankExit& left = *facts.leaver;
  const std::string when =
      left.step == 0 ? "before the first step" : fmt::format("after step {}", left.step);
  const std::string waited = end_in_words(*facts.unexplained.front());
  return fmt::format("rank {} ended by itself {}, while {} waited for it{}", left.rank, when,
                     ranks_in_words(left_alone(facts)), waited == when ? "" : " " + waited);
}

void judge_exits(const CellEvidence& cell, const CellFacts& facts, ClaimResult& result) {
  if (cell.exits.empty()) {
    result.reason = "not triggered: the exits of the ranks are unknown";
    return;
  }
  const std::size_t processes =
      cell.evidence ? static_cast<std::size_t>(cell.evidence->processes()) : 0;
  if (cell.exits.size() < processes) {
    result.reason = fmt::format("the exits of {} of {} ranks are unknown",
                                processes - cell.exits.size(), processes);
    return;
  }
  result.comparisons = static_cast<std::int64_t>(cell.exits.size());
  const CollectiveAnalysis& analysis = facts.analysis;
  for (const CollectiveMismatch& missed : analysis.blocking) {
    if (is_program_fault(missed)) add_mismatch(cell, analysis, missed, result);
  }
  if (facts.leaver) add_leaver(facts, result);
  for (const RankExit* end : facts.unexplained) {
    if (facts.leaver) break;
    Finding finding = finding_of(result.claim, *end, facts.is_job);
    const std::string waiting = mismatch_without(analysis, end->rank);
    if (!waiting.empty()) finding.sentence += " " + waiting;
    result.findings.push_back(std::move(finding));
  }
  result.reason = analysis.progress.empty() ? unknown_ends_in_words(cell) : analysis.progress;
  if (!result.findings.empty()) {
    result.verdict = Verdict::violated;
    result.reason.clear();
  } else if (result.reason.empty()) {
    result.verdict = Verdict::holds;
  }
}

}  // namespace lockstep
