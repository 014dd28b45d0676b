#include "harness/verdict/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/judge/judge.h"
#include "harness/judge/ranks/exits.h"
#include "reports/base/names.h"
#include "reports/base/plain_text.h"

namespace lockstep {

namespace {

/// A line has no room for an error that is a page.
constexpr std::size_t kMostOfAnError = 300;

std::string in_step(std::int64_t step) {
  return step > 0 ? fmt::format("in step {}", step) : "before the first step";
}

/// The culprit that tells most: a rank that raised, in the earliest step, the lowest. The order in
/// which ranks ended is a matter of luck.
const RankEnd* telling_end(const CellFacts& facts) {
  const std::vector<const RankEnd*>& found = facts.unexplained;
  const auto order = [](const RankEnd* end) {
    return std::tuple(end->ending != Ending::raised, end->step, end->rank);
  };
  const auto first =
      std::min_element(found.begin(), found.end(),
                       [&](const RankEnd* a, const RankEnd* b) { return order(a) < order(b); });
  return first == found.end() ? nullptr : *first;
}

/// " after a wrong step 1"; empty where no step before `step` is known to be wrong.
std::string after_wrong_step(std::int64_t wrong_step, std::int64_t step) {
  const bool is_before = wrong_step > 0 && wrong_step < step;
  return is_before ? fmt::format(" after a wrong step {}", wrong_step) : "";
}

CellOutcome error_of(const RankEnd& end, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.step = end.step;
  outcome.wrong_step = wrong_step;
  outcome.error = beginning(first_sentence(end.error), kMostOfAnError);
  const std::string late = after_wrong_step(wrong_step, end.step);
  outcome.kind = late.empty() ? OutcomeKind::raised : OutcomeKind::raised_late;
  outcome.text = fmt::format("raised {}{}: {}", in_step(end.step), late,
                             outcome.error.empty() ? "an error that says nothing" : outcome.error);
  return outcome;
}

CellOutcome not_finished(const CellFacts& facts, const RankEnd& end, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::not_finished;
  outcome.step = end.step;
  outcome.wrong_step = wrong_step;
  outcome.text = fmt::format("not finished: rank {} {} {}{}", end.rank, how(end), in_step(end.step),
                             after_wrong_step(wrong_step, end.step));
  if (const std::size_t more = facts.culprits.size() - 1; more > 0) {
    outcome.text += fmt::format(", and {} more {}", more, more == 1 ? "rank" : "ranks");
  }
  return outcome;
}

/// Of a cell whose ranks did not meet, by their program's fault.
CellOutcome unmet(const CollectiveMismatch& missed, std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind =
      is_difference_of_calls(missed.fault) ? OutcomeKind::mismatched : OutcomeKind::not_finished;
  outcome.step = missed.step;
  outcome.wrong_step = wrong_step;
  outcome.text = fmt::format("{}{}: {}", name(outcome.kind),
                             after_wrong_step(wrong_step, missed.step), missed.sentence);
  outcome.text.pop_back();  // a line, not a sentence
  return outcome;
}

std::string in_words(const ValuePlace& parting) {
  return fmt::format("ranks differ from step {} on: {}", parting.step, parting.tensor);
}

CellOutcome never_trained_outcome(const std::vector<std::string>& names,
                                  const std::optional<ValuePlace>& parting,
                                  std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::never_trained;
  outcome.step = outcome.wrong_step = wrong_step;
  outcome.tensor = names.front();
  outcome.text = "never trained: " + names.front();
  if (names.size() > 1) outcome.text += fmt::format(" and {} more", names.size() - 1);
  if (parting) outcome.text += ", and " + in_words(*parting);
  return outcome;
}

/// `wrong`: the first wrong value; nothing where ranks only differ from each other.
CellOutcome ranks_differ(const ValuePlace& parting, const std::optional<ValuePlace>& wrong,
                         std::int64_t wrong_step) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::ranks_differ;
  outcome.step = parting.step;
  outcome.wrong_step = wrong_step;
  outcome.tensor = parting.tensor;
  outcome.text = in_words(parting);
  if (!wrong || !(*wrong < parting)) return outcome;
  const bool is_another = wrong->tensor != parting.tensor;
  if (is_another) {
    outcome.text += fmt::format(", after a wrong step {}: {}", wrong->step, wrong->tensor);
  } else if (wrong->step < parting.step) {
    outcome.text += fmt::format(", after a wrong step {}", wrong->step);
  }
  return outcome;
}

/// How a wrong value stands to the right one, behind a comma; empty where it cannot be told.
std::string ratio_text(const Finding& finding) {
  if (!finding.ratio_in_words.empty()) return ", " + finding.ratio_in_words;
  const bool is_finite = finding.relative_difference && !std::isnan(*finding.relative_difference);
  if (!is_finite) return finding.first_difference ? ", a value is not finite" : "";
  if (!finding.ratio || !finding.cosine) return "";
  return fmt::format(", ratio {:.4g}, cosine {:.4g}", *finding.ratio, *finding.cosine);
}

CellOutcome agree_but_wrong(const Finding& finding, bool is_known_to_agree) {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::agree_but_wrong;
  outcome.step = outcome.wrong_step = finding.step;
  outcome.tensor = finding.tensor;
  outcome.ratio = finding.ratio;
  outcome.cosine = finding.cosine;
  outcome.text = fmt::format("{} from step {} on: {}{}",
                             is_known_to_agree ? "ranks agree but are wrong" : "wrong",
                             finding.step, finding.tensor, ratio_text(finding));
  return outcome;
}

/// Of a cell whose ranks finished and whose values are wrong; nothing when none was seen to be.
std::optional<CellOutcome> outcome_of_values(const WrongValues& wrong,
                                             const std::vector<ClaimResult>& results) {
  const std::int64_t wrong_step = first_damage(results);
  if (!wrong.never_trained.empty()) {
    return never_trained_outcome(wrong.never_trained, wrong.parting, wrong_step);
  }
  if (wrong.parting) return ranks_differ(*wrong.parting, wrong.first, wrong_step);
  const Finding* finding = first_finding(results, Predicate::equal_reference);
  if (!finding) return std::nullopt;
  return agree_but_wrong(*finding, wrong.is_known_to_agree);
}

/// The largest excess of all, at the first place; nothing when memory stays within the reference's.
std::optional<CellOutcome> exceeded_memory(const std::vector<ClaimResult>& results) {
  const Finding* first = first_finding(results, Predicate::at_most_reference);
  if (!first) return std::nullopt;
  double factor = 0;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate != Predicate::at_most_reference) continue;
    factor = std::max(factor, 1 + result.margin.value_or(0) / 10);
  }
  CellOutcome outcome;
  outcome.kind = OutcomeKind::exceeds_memory;
  outcome.step = first->step;
  outcome.tensor = first->tensor;
  outcome.ratio = factor;
  outcome.text = fmt::format("exceeds memory: {:.3g} times the reference's", factor);
  return outcome;
}

CellOutcome right() {
  CellOutcome outcome;
  outcome.kind = OutcomeKind::right;
  outcome.text = "right";
  return outcome;
}

/// Of a cell in which nothing was found, and which does not keep every claim.
/// `progress`: how far ranks were that did not come to their end; empty: they did.
CellOutcome undecided(const std::vector<ClaimResult>& results, const std::string& progress) {
  const auto open = std::find_if(results.begin(), results.end(), [](const auto& result) {
    return result.verdict != Verdict::holds;
  });
  CellOutcome outcome;
  outcome.text = "undecided: ";
  if (!progress.empty()) {
    outcome.text += progress;
  } else {
    outcome.text += open == results.end() ? "nothing was claimed" : open->reason;
  }
  return outcome;
}

}  // namespace

CellOutcome outcome_of(const CellFacts& facts, const std::vector<ClaimResult>& results,
                       const WrongValues& values) {
  const CollectiveAnalysis& analysis = facts.analysis;
  const std::int64_t wrong_step = first_damage(results);
  if (const RankEnd* end = telling_end(facts)) {
    return end->ending == Ending::raised ? error_of(*end, wrong_step)
                                         : not_finished(facts, *end, wrong_step);
  }
  if (!analysis.blocking.empty() && !facts.all_finished) {
    return unmet(analysis.blocking.front(), wrong_step);
  }
  const bool is_mismatched = analysis.missed && is_difference_of_calls(analysis.missed->fault);
  if (keeps_every_claim(results)) return is_mismatched ? unmet(*analysis.missed, 0) : right();
  if (auto wrong = outcome_of_values(values, results)) return *wrong;
  if (auto exceeded = exceeded_memory(results)) return *exceeded;
  if (is_mismatched) return unmet(*analysis.missed, 0);
  if (first_finding(results, Predicate::collectives_match)) return unmet(*analysis.missed, 0);
  return undecided(results, analysis.progress);
}

CellOutcome outcome_of_unrun(const std::string& precondition,
                             const std::optional<NotRun>& not_run) {
  CellOutcome outcome;
  outcome.text = not_run ? "not run: " + not_run->reason
                         : "undecided: the run was interrupted before this cell";
  if (precondition.empty()) return outcome;
  outcome.kind = OutcomeKind::not_applicable;
  outcome.text = "not applicable: " + precondition;
  return outcome;
}

}  // namespace lockstep
