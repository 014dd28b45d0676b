#include "harness/verdict/symptom.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "harness/judge/judge.h"
#include "harness/judge/rank_exits.h"
#include "harness/judge/ranks/exits.h"
#include "harness/judge/values/finiteness.h"
#include "harness/verdict/job_ending.h"
#include "harness/verdict/job_fault.h"
#include "harness/verdict/reduction_fold.h"
#include "reports/base/names.h"
#include "reports/base/plain_text.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

/// A line has no room for a page-long error.
constexpr std::size_t kMostOfAnError = 300;

Symptom error_of(const RankExit& end, std::int64_t wrong_step) {
  Symptom symptom;
  symptom.step = end.step;
  symptom.wrong_step = wrong_step;
  symptom.error = beginning(first_sentence(end.error), kMostOfAnError);
  const std::string late = after_wrong_step(wrong_step, end.step);
  symptom.kind = late.empty() ? SymptomKind::raised : SymptomKind::raised_late;
  symptom.text = fmt::format("raised {}{}: {}", end_in_words(end), late,
                             symptom.error.empty() ? "an error without a message" : symptom.error);
  return symptom;
}

Symptom not_finished(const CellFacts& facts, const RankExit& end, std::int64_t wrong_step) {
  Symptom symptom;
  symptom.kind = SymptomKind::not_finished;
  symptom.step = end.step;
  symptom.wrong_step = wrong_step;
  symptom.text = fmt::format("not finished: rank {} {} {}{}", end.rank, exit_in_words(end),
                             end_in_words(end), after_wrong_step(wrong_step, end.step));
  if (const std::size_t more = facts.culprits.size() - 1; more > 0) {
    symptom.text += fmt::format(", and {} more {}", more, more == 1 ? "rank" : "ranks");
  }
  return symptom;
}

/// For a cell whose ranks' collectives did not match, by the program's fault.
Symptom unmet(const CollectiveMismatch& missed, std::int64_t wrong_step) {
  Symptom symptom;
  symptom.kind =
      is_difference_of_calls(missed.fault) ? SymptomKind::mismatched : SymptomKind::not_finished;
  symptom.step = missed.step;
  symptom.wrong_step = wrong_step;
  symptom.text = fmt::format("{}{}: {}", name(symptom.kind),
                             after_wrong_step(wrong_step, missed.step), missed.sentence);
  symptom.text.pop_back();  // a line, not a sentence
  return symptom;
}

std::string difference_in_words(const ValuePlace& parting) {
  return fmt::format("ranks differ from step {} on: {}", parting.step, parting.tensor);
}

Symptom never_trained_outcome(const std::vector<std::string>& names,
                              const std::optional<ValuePlace>& parting, std::int64_t wrong_step) {
  Symptom symptom;
  symptom.kind = SymptomKind::never_trained;
  symptom.step = symptom.wrong_step = wrong_step;
  symptom.tensor = names.front();
  symptom.text = "never trained: " + names.front();
  if (names.size() > 1) symptom.text += fmt::format(" and {} more", names.size() - 1);
  if (parting) symptom.text += ", and " + difference_in_words(*parting);
  return symptom;
}

/// Of a job: " (4 of 4 gradients; rank 1 against ranks 0,2,3)"; empty: it was not counted.
std::string extent_in_words(const Finding& finding) {
  if (finding.compared == 0) return "";
  const std::string parties = parties_in_words(finding);
  return fmt::format(" ({} of {} {}{}{})", finding.tensors.size(), finding.compared,
                     plural(*finding.claim.kind), parties.empty() ? "" : "; ", parties);
}

/// `wrong`: the first wrong value; empty if ranks only differ from each other.
Symptom ranks_differ(const ValuePlace& parting, const std::optional<ValuePlace>& wrong,
                     std::int64_t wrong_step) {
  Symptom symptom;
  symptom.kind = SymptomKind::ranks_differ;
  symptom.step = parting.step;
  symptom.wrong_step = wrong_step;
  symptom.tensor = parting.tensor;
  symptom.text = difference_in_words(parting);
  if (!wrong || !(*wrong < parting)) return symptom;
  const bool is_another = wrong->tensor != parting.tensor;
  if (is_another) {
    symptom.text += fmt::format(", after a wrong step {}: {}", wrong->step, wrong->tensor);
  } else if (wrong->step < parting.step) {
    symptom.text += fmt::format(", after a wrong step {}", wrong->step);
  }
  return symptom;
}

/// Relation of a wrong value to the expected one, after a comma; empty if unknown.
std::string ratio_text(const Finding& finding) {
  if (const std::string origin = origin_in_words(finding); !origin.empty()) return ", " + origin;
  const bool is_finite = finding.relative_difference && !std::isnan(*finding.relative_difference);
  if (!is_finite) return finding.first_difference ? ", a value is not finite" : "";
  if (!finding.ratio || !finding.cosine) return "";
  return fmt::format(", ratio {:.4g}, cosine {:.4g}", *finding.ratio, *finding.cosine);
}

Symptom agree_but_wrong(const Finding& finding, bool is_known_to_agree) {
  Symptom symptom = symptom_of_wrong(
      finding, fmt::format("{} from step {} on: {}{}",
                           is_known_to_agree ? "ranks agree but are wrong" : "wrong", finding.step,
                           finding.tensor, ratio_text(finding)));
  symptom.ratio = finding.ratio;
  symptom.cosine = finding.cosine;
  return symptom;
}

Symptom became_not_finite(const Finding& finding) {
  Symptom symptom;
  symptom.kind = SymptomKind::became_not_finite;
  symptom.step = symptom.wrong_step = finding.step;
  symptom.tensor = finding.tensor;
  symptom.text = fmt::format("{} became not finite in step {}: {}", plural(*finding.claim.kind),
                             finding.step, finding.tensor);
  if (finding.birth && finding.birth->kind != finding.claim.kind) {
    symptom.text += ", after " + place_of_birth(*finding.birth);
  }
  return symptom;
}

/// For a cell whose ranks finished with wrong values; empty if none was seen.
std::optional<Symptom> symptom_of_values(const WrongValues& wrong,
                                         const std::vector<ClaimResult>& results, bool is_job) {
  const std::int64_t wrong_step = first_damage(results);
  if (!wrong.never_trained.empty()) {
    return never_trained_outcome(wrong.never_trained, wrong.parting, wrong_step);
  }
  const Finding* const not_finite = first_finding(results, Predicate::stay_finite);
  if (not_finite && (!wrong.parting || not_finite->step <= wrong.parting->step)) {
    return became_not_finite(*not_finite);
  }
  if (wrong.parting) {
    Symptom symptom = ranks_differ(*wrong.parting, wrong.first, wrong_step);
    const Finding* const first = first_finding(results, Predicate::agree_across_ranks);
    const bool is_of_start = first && first->kind == FindingKind::initial_weights_differ &&
                             first->step == wrong.parting->step;
    if (is_of_start && !wrong.first) {
      symptom.text = fmt::format("ranks differ before step {} (initial weights): {}", first->step,
                                 first->tensor);
    }
    const bool is_its =
        first && first->step == wrong.parting->step && first->tensor == wrong.parting->tensor;
    if (is_its && is_job) symptom.text += extent_in_words(*first);
    return symptom;
  }
  const Finding* finding = first_finding(results, Predicate::equal_reference);
  if (!finding) return std::nullopt;
  return agree_but_wrong(*finding, wrong.is_known_to_agree);
}

/// The largest excess of all, at its first position; empty if memory stays within the reference's
/// limit.
std::optional<Symptom> exceeded_memory(const std::vector<ClaimResult>& results) {
  const Finding* first = first_finding(results, Predicate::at_most_reference);
  if (!first) return std::nullopt;
  double factor = 0;
  for (const ClaimResult& result : results) {
    if (result.claim.predicate != Predicate::at_most_reference) continue;
    factor = std::max(factor, 1 + result.margin.value_or(0) / 10);
  }
  Symptom symptom;
  symptom.kind = SymptomKind::exceeds_memory;
  symptom.step = first->step;
  symptom.tensor = first->tensor;
  symptom.ratio = factor;
  symptom.text = fmt::format("exceeds memory: {:.3g} times the reference's", factor);
  return symptom;
}

/// Ranks hold the same where each should have its own; empty: they do not.
std::optional<Symptom> same_values(const std::vector<ClaimResult>& results) {
  const Finding* const same = first_finding(results, Predicate::differ_across_ranks);
  if (!same) return std::nullopt;
  Symptom symptom;
  symptom.kind = same->kind == FindingKind::same_samples ? SymptomKind::same_samples
                                                         : SymptomKind::agree_but_wrong;
  symptom.step = symptom.wrong_step = same->step;
  symptom.tensor = same->tensor;
  symptom.text = fmt::format("ranks hold the same {} from step {} on: {}",
                             plural(*same->claim.kind), same->step, same->tensor);
  return symptom;
}

Symptom right() {
  Symptom symptom;
  symptom.kind = SymptomKind::right;
  symptom.text = "right";
  return symptom;
}

/// For a cell without findings in which not every claim holds. `progress`: how far unfinished ranks
/// were; empty: all finished.
Symptom undecided(const std::vector<ClaimResult>& results, const std::string& progress) {
  const auto open = std::find_if(results.begin(), results.end(), [](const auto& result) {
    return result.verdict != Verdict::holds;
  });
  Symptom symptom;
  symptom.text = "undecided: ";
  if (!progress.empty()) {
    symptom.text += progress;
  } else {
    symptom.text += open == results.end() ? "nothing was claimed" : open->reason;
  }
  return symptom;
}

/// Empty if its ranks came to their end.
std::optional<Symptom> ending_of_cell(const CellFacts& facts, std::int64_t wrong_step) {
  if (const RankExit* end = telling_end(facts)) {
    return end->kind == ExitKind::raised ? error_of(*end, wrong_step)
                                         : not_finished(facts, *end, wrong_step);
  }
  const bool is_blocked = !facts.analysis.blocking.empty() && !facts.all_finished;
  if (!is_blocked) return std::nullopt;
  return unmet(facts.analysis.blocking.front(), wrong_step);
}

}  // namespace

std::string after_wrong_step(std::int64_t wrong_step, std::int64_t step) {
  const bool is_before = wrong_step > 0 && wrong_step < step;
  return is_before ? fmt::format(" after a wrong step {}", wrong_step) : "";
}

Symptom symptom_of(const CellFacts& facts, const std::vector<ClaimResult>& results,
                   const WrongValues& values) {
  const CollectiveAnalysis& analysis = facts.analysis;
  const std::int64_t wrong_step = first_damage(results);
  const auto ending =
      facts.is_job ? ending_of_job(facts, wrong_step) : ending_of_cell(facts, wrong_step);
  if (ending) return *ending;
  const bool is_mismatched = analysis.missed && is_difference_of_calls(analysis.missed->fault);
  if (keeps_every_claim(results)) return is_mismatched ? unmet(*analysis.missed, 0) : right();
  if (auto wrong = symptom_of_values(values, results, facts.is_job)) return *wrong;
  if (auto exceeded = exceeded_memory(results)) return *exceeded;
  if (auto same = same_values(results)) return *same;
  if (is_mismatched) return unmet(*analysis.missed, 0);
  if (first_finding(results, Predicate::collectives_match)) return unmet(*analysis.missed, 0);
  return undecided(results, analysis.progress);
}

Symptom symptom_of_reduction(const Finding& wrong) {
  return symptom_of_wrong(wrong,
                          fmt::format("{} ({} of {}, from step {})", reduction_in_words(wrong),
                                      wrong.tensors.size(), wrong.compared, wrong.step));
}

Symptom symptom_of_unrun(const std::string& precondition, const std::optional<NotRun>& not_run) {
  Symptom symptom;
  symptom.text = not_run ? "not run: " + not_run->reason
                         : "undecided: the run was interrupted before this cell";
  if (precondition.empty()) return symptom;
  symptom.kind = SymptomKind::not_applicable;
  symptom.text = "not applicable: " + precondition;
  return symptom;
}

}  // namespace lockstep
