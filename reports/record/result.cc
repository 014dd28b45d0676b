#include "reports/record/result.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/base/names.h"
#include "reports/record/alike_failures.h"
#include "reports/record/mismatch_table.h"

namespace lockstep {

namespace {

bool contains(const std::vector<Claim>& claims, const Claim& claim) {
  return std::find(claims.begin(), claims.end(), claim) != claims.end();
}

int count(const CellRecord& cell, Check::Outcome outcome) {
  return static_cast<int>(
      std::count_if(cell.checks.begin(), cell.checks.end(),
                    [&](const Check& check) { return check.outcome == outcome; }));
}

/// How many things a cell declares that its checks can find. A declared error breaks `ranks finish`
/// without saying so.
int declared(const CellRecord& cell) {
  const Expectation& expected = cell.expectation;
  const bool implies_end = !expected.raises.empty() && !contains(expected.breaks, ranks_finish()) &&
                           contains(cell.claims, ranks_finish());
  return static_cast<int>(expected.breaks.size() + expected.raises.size()) + (implies_end ? 1 : 0);
}

bool finds_all_declared(const CellRecord& cell) {
  return count(cell, Check::Outcome::found) >= declared(cell);
}

/// Whether a cell that was to show something bad is right.
bool is_right_instead(const CellRecord& cell) {
  return cell.outcome.kind == OutcomeKind::right &&
         cell.expectation.outcome.value_or(OutcomeKind::right) != OutcomeKind::right;
}

bool is_an_ending(OutcomeKind kind) {
  return kind == OutcomeKind::raised || kind == OutcomeKind::raised_late ||
         kind == OutcomeKind::not_finished || kind == OutcomeKind::mismatched;
}

bool is_about_values(const Check& check) { return check.claim && check.claim->kind; }

/// Whether ranks were to end badly, or to call what does not match, and did.
bool ends_as_declared(const CellRecord& cell) {
  const Expectation& expected = cell.expectation;
  const bool is_declared = !expected.raises.empty() || contains(expected.breaks, ranks_finish()) ||
                           contains(expected.breaks, collectives_match());
  const bool has_another =
      std::any_of(cell.checks.begin(), cell.checks.end(), [](const Check& check) {
        return check.outcome == Check::Outcome::false_alarm && !is_about_values(check);
      });
  return is_declared && finds_all_declared(cell) && !has_another;
}

bool is_about_values(OutcomeKind kind) {
  return kind == OutcomeKind::ranks_differ || kind == OutcomeKind::agree_but_wrong ||
         kind == OutcomeKind::never_trained || kind == OutcomeKind::exceeds_memory;
}

/// The text of an outcome without the word that it begins with, where that is the name of its kind.
std::string text_of(const CellOutcome& outcome) {
  const std::string begin = fmt::format("{}: ", name(outcome.kind));
  return outcome.text.starts_with(begin) ? outcome.text.substr(begin.size()) : outcome.text;
}

/// The finding that the outcome tells, about values that are the reference's in another size; null
/// when it is none such.
const Finding* scaled_finding(const CellRecord& cell) {
  constexpr double kSameDirection = 0.9999;
  for (const ClaimResult& result : cell.results) {
    for (const Finding& finding : result.findings) {
      const bool is_told =
          cell.outcome.kind == OutcomeKind::agree_but_wrong && finding.claim.kind &&
          finding.claim.predicate == Predicate::equal_reference &&
          finding.step == cell.outcome.step && finding.tensor == cell.outcome.tensor;
      if (is_told && finding.ratio && finding.cosine.value_or(0) > kSameDirection) return &finding;
    }
  }
  return nullptr;
}

/// The first finding about the error that the outcome tells; null when there is none.
const Finding* raised_finding(const CellRecord& cell) {
  if (cell.outcome.error.empty()) return nullptr;
  for (const ClaimResult& result : cell.results) {
    for (const Finding& finding : result.findings) {
      const bool is_told = finding.failure && finding.step == cell.outcome.step &&
                           finding.failure->error.find(cell.outcome.error) != std::string::npos;
      if (is_told) return &finding;
    }
  }
  return nullptr;
}

std::string outcome_in_words(const CellRecord& cell) {
  if (const Finding* scaled = scaled_finding(cell)) {
    return fmt::format("{} are {:.4g} times the reference from step {} on: {}",
                       plural(*scaled->claim.kind), *scaled->ratio, scaled->step, scaled->tensor);
  }
  if (const Finding* raised = raised_finding(cell)) {
    const bool has_step = raised->step > 0;
    return fmt::format("{} {}{}: {}", ranks_in_words(ranks_failing_alike(cell, *raised)),
                       raised->failure->how,
                       has_step ? fmt::format(" in step {}", raised->step) : "",
                       cell.outcome.error.substr(0, cell.outcome.error.find_last_not_of('.') + 1));
  }
  return text_of(cell.outcome);
}

/// The first check of the outcome that matters most; null when all is as expected.
const Check* worst_check(const CellRecord& cell) {
  for (const Check::Outcome outcome :
       {Check::Outcome::false_alarm, Check::Outcome::missed, Check::Outcome::undecided}) {
    const auto found = std::find_if(cell.checks.begin(), cell.checks.end(),
                                    [&](const Check& check) { return check.outcome == outcome; });
    if (found != cell.checks.end()) return &*found;
  }
  return nullptr;
}

std::string behind_colon(const std::string& text) { return text.empty() ? "" : ": " + text; }

std::string claim_in_words(const Check& check) {
  const std::string claim = fmt::format("\"{}\"", sentence(*check.claim));
  const auto but = [&](std::string_view what) { return check.text.empty() ? what : check.text; };
  switch (check.outcome) {
    case Check::Outcome::found:
      return fmt::format("as expected: {} is violated", claim);
    case Check::Outcome::as_promised:
      return check.text.empty() ? fmt::format("as expected: {} holds", claim)
                                : fmt::format("open: {}: {}", claim, check.text);
    case Check::Outcome::false_alarm:
      return fmt::format("expected {} to hold, but {}", claim, but("it is violated"));
    case Check::Outcome::missed:
      return fmt::format("expected {} to be violated, but {}", claim, but("it holds"));
    case Check::Outcome::undecided:
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
  if (is_told_by_outcome(cell)) return outcome_in_words(cell);
  const Check* check = worst_check(cell);
  if (!check) return text_of(cell.outcome);
  return check->outcome == Check::Outcome::undecided ? check->text : in_words(*check);
}

bool is_told_by_outcome(const CellRecord& cell) {
  const OutcomeKind kind = cell.outcome.kind;
  if (cell.outcome.text.empty() || result_of(cell) == Result::not_found) return false;
  if (is_caused_by_an_ending(cell)) return true;
  if (result_of(cell) == Result::undecided) return kind == OutcomeKind::undecided;
  return is_about_values(kind) && declared(cell) == 0;
}

bool is_told_by_cause(const CellRecord& cell, const Check& check) {
  if (!is_told_by_outcome(cell)) return &check == worst_check(cell);
  return is_caused_by_an_ending(cell) && check.claim && !check.claim->kind;
}

bool is_caused_by_an_ending(const CellRecord& cell) {
  return is_an_ending(cell.outcome.kind) && !ends_as_declared(cell);
}

std::string_view demand_on(const CellRecord& cell) {
  if (cell.expectation.not_triggered) return "must not be triggered";
  return declared(cell) > 0 ? "must fail as declared" : "must be right";
}

std::string in_words(const Check& check) {
  if (check.claim) return claim_in_words(check);
  switch (check.outcome) {
    case Check::Outcome::found:
    case Check::Outcome::as_promised:
      return fmt::format("as expected: it {}{}", check.promise, behind_colon(check.text));
    case Check::Outcome::missed:
    case Check::Outcome::false_alarm:
      return fmt::format("expected that it {}, but {}", check.promise, check.text);
    case Check::Outcome::undecided:
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
