#include "harness/verdict/expectation.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/judge/evidence/settle.h"
#include "harness/judge/judge.h"
#include "harness/verdict/pins.h"
#include "reports/base/names.h"

namespace lockstep {

namespace {

bool contains(const std::vector<Claim>& claims, const Claim& claim) {
  return std::find(claims.begin(), claims.end(), claim) != claims.end();
}

bool declares(const Expectation& expectation, const Claim& claim) {
  return contains(expectation.breaks, claim) ||
         (claim.predicate == Predicate::ranks_finish && !expectation.raises.empty());
}

/// A cell that declares a loss of ranks cannot be observed to its end, so undecided claims are no
/// fault.
bool ends_early_as_declared(const CellRecord& cell) {
  return std::any_of(cell.results.begin(), cell.results.end(), [&](const ClaimResult& result) {
    return result.claim.predicate == Predicate::ranks_finish &&
           result.verdict == Verdict::violated && declares(cell.expectation, result.claim);
  });
}

/// Undecided claims are no fault if the variant was not meant to be exercised.
bool may_stay_open(const CellRecord& cell) {
  return cell.expectation.not_triggered || ends_early_as_declared(cell);
}

Check check_about(const Claim& claim, bool is_declared) {
  Check check;
  check.promise = fmt::format("{} {}", is_declared ? "breaks" : "keeps", sentence(claim));
  check.claim = claim;
  return check;
}

/// How every finding of a claim differs from its pin; empty if at least one matches.
std::string departure_from(const Pin& pin, const ClaimResult& result, const CellRecord& cell) {
  std::string first;
  for (const Finding& finding : result.findings) {
    std::string text = departure(pin, finding, cell);
    if (text.empty()) return "";
    if (first.empty()) first = std::move(text);
  }
  return first.empty() ? "there is no finding" : first;
}

/// Why the violation of a claim is not the declared one; empty: it is.
std::string other_fault(const CellRecord& cell, const ClaimResult& result) {
  for (const Pin& pin : cell.expectation.pins) {
    if (pin.claim != result.claim) continue;
    const std::string text = departure_from(pin, result, cell);
    if (!text.empty()) return "it is violated by another fault: " + text;
  }
  return "";
}

void check_declared_violation(const CellRecord& cell, const ClaimResult& result, Check& check) {
  check.text = other_fault(cell, result);
  check.result = check.text.empty() ? Check::Result::found : Check::Result::missed;
}

Check check_claim(const CellRecord& cell, const ClaimResult& result) {
  const bool declared = declares(cell.expectation, result.claim);
  Check check = check_about(result.claim, declared);
  switch (result.verdict) {
    case Verdict::violated:
      if (declared) {
        check_declared_violation(cell, result, check);
      } else {
        check.result = Check::Result::false_alarm;
      }
      break;
    case Verdict::holds:
      check.result = declared ? Check::Result::missed : Check::Result::as_promised;
      break;
    case Verdict::undecided:
      check.result =
          !declared && may_stay_open(cell) ? Check::Result::as_promised : Check::Result::undecided;
      check.text = result.reason;
      break;
  }
  return check;
}

/// If a path is declared to be missed, every rank must miss it.
Check check_trigger(const CellRecord& cell) {
  if (is_triggered(cell.exits)) {
    return {"is not triggered", Check::Result::missed, "a rank reached the branch point"};
  }
  return {"is not triggered", Check::Result::found,
          "no rank reached the branch point, so this run does not test it"};
}

/// Message of a failed rank: its exception, or a library's output before it aborted.
std::string words_of(const RankFailure& failure) {
  return failure.error.empty() ? failure.last_output : failure.error;
}

bool matches_error(const ExpectedError& expected, const Finding& finding) {
  return finding.failure && words_of(*finding.failure).find(expected.fragment) != std::string::npos;
}

Check check_error(const ExpectedError& expected, const std::vector<Finding>& failures) {
  Check check;
  check.promise = fmt::format("raises \"{}\"", expected.fragment);
  const auto finding = std::find_if(failures.begin(), failures.end(),
                                    [&](const Finding& f) { return matches_error(expected, f); });
  check.result = Check::Result::missed;
  if (finding == failures.end()) {
    check.text = "no rank raised it";
  } else if (expected.step != 0 && finding->step != expected.step) {
    check.text = fmt::format("it came in step {}, not in step {}", finding->step, expected.step);
  } else if (finding->failure->lag.value_or(0) != expected.lag) {
    check.text = fmt::format("it came {} steps after the first wrong step, not {}",
                             finding->failure->lag.value_or(0), expected.lag);
  } else {
    check.result = Check::Result::found;
  }
  return check;
}

/// Claims that should be broken were not even judged if the scenario does not make them.
void check_claims_not_made(CellRecord& cell) {
  for (const Claim& claim : cell.expectation.breaks) {
    if (contains(cell.claims, claim)) continue;
    cell.checks.push_back(check_about(claim, /*is_declared=*/true));
    cell.checks.back().result = Check::Result::missed;
    cell.checks.back().text = "the scenario does not make this claim, so it was not judged";
  }
}

/// Without this check, an unexplained error could hide behind a declared failure.
void check_other_errors(CellRecord& cell, const std::vector<Finding>& failures) {
  if (cell.expectation.raises.empty()) return;
  for (const Finding& finding : failures) {
    const bool is_declared = std::any_of(
        cell.expectation.raises.begin(), cell.expectation.raises.end(),
        [&](const ExpectedError& expected) { return matches_error(expected, finding); });
    if (is_declared) continue;
    cell.checks.push_back({"raises nothing else", Check::Result::false_alarm, finding.sentence});
  }
}

/// Whether the cell has claims about collectives but no record of them: `--collectives off`.
bool lacks_collectives(const CellRecord& cell) {
  return std::any_of(cell.results.begin(), cell.results.end(), [](const ClaimResult& result) {
    return result.claim.predicate == Predicate::collectives_match && result.comparisons == 0 &&
           result.verdict == Verdict::undecided;
  });
}

/// A run without any symptom breaks no promise.
Check check_symptom(const CellRecord& cell) {
  const SymptomKind promised = *cell.expectation.symptom;
  Check check{fmt::format("results in '{}'", name(promised)), Check::Result::as_promised, ""};
  if (cell.symptom.kind == promised) return check;
  if (promised == SymptomKind::mismatched && lacks_collectives(cell)) {
    check.result = Check::Result::undecided;
    check.text = "no collective was recorded, so a mismatch cannot be detected";
    return check;
  }
  check.result = cell.symptom.kind == SymptomKind::undecided ? Check::Result::undecided
                                                             : Check::Result::missed;
  check.text = "it resulted in: " + cell.symptom.text;
  return check;
}

CellVerdict verdict_of(Check::Result result) {
  switch (result) {
    case Check::Result::found:
    case Check::Result::as_promised:
      return CellVerdict::as_expected;
    case Check::Result::missed:
      return CellVerdict::missed;
    case Check::Result::false_alarm:
      return CellVerdict::false_alarm;
    case Check::Result::undecided:
      return CellVerdict::undecided;
  }
  return CellVerdict::undecided;
}

void settle(CellRecord& cell) {
  cell.verdict = CellVerdict::as_expected;
  for (const Check& check : cell.checks) {
    cell.verdict = std::max(cell.verdict, verdict_of(check.result));
  }
}

}  // namespace

void check_expectation(CellRecord& cell) {
  cell.checks.clear();
  if (!cell.expectation.not_applicable.empty()) {
    cell.verdict = CellVerdict::not_applicable;
    return;
  }
  if (cell.processes == 0 || cell.not_run) {
    cell.checks.push_back(
        {"is run", Check::Result::undecided,
         cell.not_run ? cell.not_run->reason : "the run was interrupted before this cell"});
    settle(cell);
    return;
  }
  std::vector<Finding> failures;
  for (const ClaimResult& result : cell.results) {
    cell.checks.push_back(check_claim(cell, result));
    for (const Finding& finding : result.findings) {
      if (finding.failure) failures.push_back(finding);
    }
  }
  check_claims_not_made(cell);
  for (const ExpectedError& expected : cell.expectation.raises) {
    cell.checks.push_back(check_error(expected, failures));
  }
  check_other_errors(cell, failures);
  if (cell.expectation.symptom) cell.checks.push_back(check_symptom(cell));
  if (cell.expectation.not_triggered) cell.checks.push_back(check_trigger(cell));
  settle(cell);
}

void add_check(CellRecord& cell, const std::string& promise, const std::string& text) {
  cell.checks.push_back(
      {promise, text.empty() ? Check::Result::as_promised : Check::Result::missed, text});
  settle(cell);
}

}  // namespace lockstep
