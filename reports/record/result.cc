#include "reports/record/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/base/names.h"
#include "reports/record/alike_failures.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool contains(const std::vector<Claim>& claims, const Claim& claim) {
  return std::find(claims.begin(), claims.end(), claim) != claims.end();
}

int count(const CellRecord& cell, Check::Result wanted) {
  return static_cast<int>(
      std::count_if(cell.checks.begin(), cell.checks.end(),
                    [&](const Check& check) { return check.result == wanted; }));
}

/// Number of declarations that a cell's checks can find. A declared error implies a break of `ranks
/// finish`.
int declared(const CellRecord& cell) {
  const Expectation& expected = cell.expectation;
  const bool implies_end = !expected.raises.empty() && !contains(expected.breaks, ranks_finish()) &&
                           contains(cell.claims, ranks_finish());
  return static_cast<int>(expected.breaks.size() + expected.raises.size()) + (implies_end ? 1 : 0);
}

bool finds_all_declared(const CellRecord& cell) {
  return count(cell, Check::Result::found) >= declared(cell);
}

/// Whether a cell that declares a fault turned out right.
bool is_right_instead(const CellRecord& cell) {
  return cell.symptom.kind == SymptomKind::right &&
         cell.expectation.symptom.value_or(SymptomKind::right) != SymptomKind::right;
}

bool is_an_ending(SymptomKind kind) {
  return kind == SymptomKind::raised || kind == SymptomKind::raised_late ||
         kind == SymptomKind::not_finished || kind == SymptomKind::mismatched;
}

bool is_about_values(const Check& check) { return check.claim && check.claim->kind; }

/// Whether ranks were declared to fail or to make mismatched calls, and did.
bool ends_as_declared(const CellRecord& cell) {
  const Expectation& expected = cell.expectation;
  const bool is_declared = !expected.raises.empty() || contains(expected.breaks, ranks_finish()) ||
                           contains(expected.breaks, collectives_match());
  const bool has_another =
      std::any_of(cell.checks.begin(), cell.checks.end(), [](const Check& check) {
        return check.result == Check::Result::false_alarm && !is_about_values(check);
      });
  return is_declared && finds_all_declared(cell) && !has_another;
}

bool is_about_values(SymptomKind kind) {
  return kind == SymptomKind::ranks_differ || kind == SymptomKind::agree_but_wrong ||
         kind == SymptomKind::never_trained || kind == SymptomKind::exceeds_memory;
}

/// The text of a symptom without its first word, if that is the name of its kind.
std::string text_of(const Symptom& symptom) {
  const std::string begin = fmt::format("{}: ", name(symptom.kind));
  return symptom.text.starts_with(begin) ? symptom.text.substr(begin.size()) : symptom.text;
}

/// The finding behind the symptom if values are scaled copies of the reference's; otherwise null.
const Finding* scaled_finding(const CellRecord& cell) {
  constexpr double kSameDirection = 0.9999;
  constexpr double kNoFactor = 5e-3;  // the value moved a little: nothing scaled it
  for (const ClaimResult& result : cell.results) {
    for (const Finding& finding : result.findings) {
      const bool is_told =
          cell.symptom.kind == SymptomKind::agree_but_wrong && finding.claim.kind &&
          finding.claim.predicate == Predicate::equal_reference &&
          finding.step == cell.symptom.step && finding.tensor == cell.symptom.tensor;
      const bool is_scaled = finding.ratio && std::abs(*finding.ratio - 1) > kNoFactor &&
                             finding.cosine.value_or(0) > kSameDirection;
      if (is_told && is_scaled) return &finding;
    }
  }
  return nullptr;
}

/// The first finding about the symptom's error; null if there is none.
const Finding* raised_finding(const CellRecord& cell) {
  if (cell.symptom.error.empty()) return nullptr;
  for (const ClaimResult& result : cell.results) {
    for (const Finding& finding : result.findings) {
      const bool is_told = finding.failure && finding.step == cell.symptom.step &&
                           finding.failure->error.find(cell.symptom.error) != std::string::npos;
      if (is_told) return &finding;
    }
  }
  return nullptr;
}

std::string symptom_in_words(const CellRecord& cell) {
  if (const Finding* scaled = scaled_finding(cell)) {
    return fmt::format("{} are {:.4g} times the reference from step {} on: {}",
                       plural(*scaled->claim.kind), *scaled->ratio, scaled->step, scaled->tensor);
  }
  if (const Finding* raised = raised_finding(cell)) {
    const bool has_step = raised->step > 0;
    return fmt::format("{} {}{}: {}", ranks_in_words(ranks_failing_alike(cell, *raised)),
                       raised->failure->how,
                       has_step ? fmt::format(" in step {}", raised->step) : "",
                       cell.symptom.error.substr(0, cell.symptom.error.find_last_not_of('.') + 1));
  }
  return text_of(cell.symptom);
}

/// The first check with the worst result; null if all is as expected.
const Check* worst_check(const CellRecord& cell) {
  for (const Check::Result wanted :
       {Check::Result::false_alarm, Check::Result::missed, Check::Result::undecided}) {
    const auto found = std::find_if(cell.checks.begin(), cell.checks.end(),
                                    [&](const Check& check) { return check.result == wanted; });
    if (found != cell.checks.end()) return &*found;
  }
  return nullptr;
}

std::string behind_colon(const std::string& text) { return text.empty() ? "" : ": " + text; }

std::string claim_in_words(const Check& check) {
  const std::string claim = fmt::format("\"{}\"", sentence(*check.claim));
  const auto but = [&](std::string_view what) { return check.text.empty() ? what : check.text; };
  switch (check.result) {
    case Check::Result::found:
      return fmt::format("as expected: {} is violated", claim);
    case Check::Result::as_promised:
      return check.text.empty() ? fmt::format("as expected: {} holds", claim)
                                : fmt::format("left undecided: {}: {}", claim, check.text);
    case Check::Result::false_alarm:
      return fmt::format("expected {} to hold, but {}", claim, but("it is violated"));
    case Check::Result::missed:
      return fmt::format("expected {} to be violated, but {}", claim, but("it holds"));
    case Check::Result::undecided:
      break;
  }
  return fmt::format("undecided: {}{}", claim, behind_colon(check.text));
}

Detection& line_of(std::vector<Detection>& lines, const Cell& cell) {
  const auto line = std::find_if(lines.begin(), lines.end(),
                                 [&](const Detection& d) { return d.scenario == cell.scenario; });
  if (line != lines.end()) return *line;
  lines.push_back({.scenario = cell.scenario, .device = cell.device});
  return lines.back();
}

void add(const CellRecord& cell, Detection& line) {
  const Result result = result_of(cell);
  ++line.cells;
  ++line[result];
  if (result == Result::not_run || declared(cell) == 0) return;
  ++line.declared;
  if (finds_all_declared(cell)) ++line.found;
}

}  // namespace

Result result_of(const CellRecord& cell) {
  switch (cell.verdict) {
    case CellVerdict::as_expected:
      return Result::as_expected;
    case CellVerdict::not_applicable:
      return Result::not_run;
    case CellVerdict::undecided:
      return reason_not_run(cell).empty() ? Result::undecided : Result::not_run;
    case CellVerdict::missed:
      return !finds_all_declared(cell) || is_right_instead(cell) ? Result::not_found
                                                                 : Result::failed;
    case CellVerdict::false_alarm:
      break;
  }
  return Result::failed;
}

const Finding* first_difference(const JobRecord& job) {
  const Finding* first = nullptr;
  for (const ClaimResult& result : job.results) {
    if (!is_about_agreement(result.claim)) continue;
    for (const Finding& finding : result.findings) {
      if (!first || finding.step < first->step) first = &finding;
    }
  }
  return first;
}

const Finding* first_not_finite(const JobRecord& job) {
  for (const ClaimResult& result : job.results) {
    if (result.claim.predicate == Predicate::stay_finite && !result.findings.empty()) {
      return &result.findings.front();
    }
  }
  return nullptr;
}

bool has_hung(const JobRecord& job) {
  const bool stands_still =
      std::any_of(job.exits.begin(), job.exits.end(),
                  [](const RankExit& end) { return end.cause == ExitCause::no_progress; });
  if (!job.elsewhere.empty()) return stands_still;  // the rank at fault may be there
  const bool is_waited_for =
      job.mismatch || std::ranges::any_of(job.exits, &RankExit::awaits_message);
  return stands_still && is_waited_for && verdict_of(job) == Verdict::violated;
}

const Finding* first_fault_of_values(const JobRecord& job) {
  const Finding* const apart = first_difference(job);
  const Finding* const not_finite = first_not_finite(job);
  if (!apart || !not_finite) return apart ? apart : not_finite;
  return not_finite->step <= apart->step ? not_finite : apart;
}

std::string_view verdict_name(ExitStatus status) {
  switch (status) {
    case ExitStatus::as_expected:
      return name(Verdict::holds);
    case ExitStatus::undecided:
      return name(Verdict::undecided);
    case ExitStatus::not_applicable:
      return "nothing compared";
    default:
      return name(Verdict::violated);
  }
}

bool is_failure(Result result) { return result == Result::failed || result == Result::not_found; }

std::string reason_not_run(const CellRecord& cell) {
  if (!cell.expectation.not_applicable.empty()) return cell.expectation.not_applicable;
  if (cell.not_run) return cell.not_run->reason;
  return cell.processes == 0 ? "the run was interrupted before this cell" : "";
}

std::string cause_of(const CellRecord& cell) {
  switch (result_of(cell)) {
    case Result::as_expected:
      return "";
    case Result::not_run:
      return reason_not_run(cell);
    default:
      break;
  }
  if (is_explained_by_symptom(cell)) return symptom_in_words(cell);
  const Check* check = worst_check(cell);
  if (!check) return text_of(cell.symptom);
  return check->result == Check::Result::undecided ? check->text : check_in_words(*check);
}

bool is_explained_by_symptom(const CellRecord& cell) {
  const SymptomKind kind = cell.symptom.kind;
  if (cell.symptom.text.empty() || result_of(cell) == Result::not_found) return false;
  if (is_caused_by_an_ending(cell)) return true;
  if (result_of(cell) == Result::undecided) return kind == SymptomKind::undecided;
  return is_about_values(kind) && declared(cell) == 0;
}

bool is_explained_by_cause(const CellRecord& cell, const Check& check) {
  if (!is_explained_by_symptom(cell)) return &check == worst_check(cell);
  return is_caused_by_an_ending(cell) && check.claim && !check.claim->kind;
}

bool is_caused_by_an_ending(const CellRecord& cell) {
  return is_an_ending(cell.symptom.kind) && !ends_as_declared(cell);
}

std::string_view demand_on(const CellRecord& cell) {
  if (cell.expectation.not_triggered) return "must not be triggered";
  return declared(cell) > 0 ? "must fail as declared" : "must be right";
}

std::string check_in_words(const Check& check) {
  if (check.claim) return claim_in_words(check);
  switch (check.result) {
    case Check::Result::found:
    case Check::Result::as_promised:
      return fmt::format("as expected: it {}{}", check.promise, behind_colon(check.text));
    case Check::Result::missed:
    case Check::Result::false_alarm:
      return fmt::format("expected that it {}, but {}", check.promise, check.text);
    case Check::Result::undecided:
      break;
  }
  return fmt::format("undecided whether it {}{}", check.promise, behind_colon(check.text));
}

std::vector<Detection> detections(const RunRecord& run) {
  std::vector<Detection> lines;
  for (const CellRecord& cell : run.cells) add(cell, line_of(lines, cell.cell));
  return lines;
}

}  // namespace lockstep
