// A run that never reached the branch point says nothing about the variant.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/judge.h"
#include "harness/verdict/expectation.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::HasSubstr;

RankExit end_at(int rank, std::optional<int> line, ExitKind ending = ExitKind::finished) {
  RankExit end = exit_of(rank, ending, rank);
  end.line = line;
  return end;
}

const std::vector<RankExit> kReached{end_at(0, 0), end_at(1, 41)};
const std::vector<RankExit> kNotReached{end_at(0, 0), end_at(1, 0)};

TEST(Trigger, IsThereWhereAnyRankReachedItsLine) {
  EXPECT_TRUE(is_triggered(kReached));
  EXPECT_FALSE(is_triggered(kNotReached));
}

TEST(Trigger, IsTakenForGrantedWhereARecordDoesNotKnow) {
  EXPECT_TRUE(is_triggered({}));
  EXPECT_TRUE(is_triggered({end_at(0, std::nullopt), end_at(1, 0)}));
}

LiteralEvidence& observe(LiteralEvidence& files, float of_rank_1) {
  files.add(0, 1, "w", {1});
  files.add(1, 1, "w", {of_rank_1});
  return files;
}

TEST(Trigger, ThatIsMissingLeavesWhatHoldsUndecided) {
  LiteralEvidence files(2);
  const StepReader evidence = observe(files, 1).write();
  EXPECT_EQ(judge_one(kAgree, evidence, nullptr, kReached).verdict, Verdict::holds);
  const ClaimResult result = judge_one(kAgree, evidence, nullptr, kNotReached);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("not triggered: no rank reached"));
  EXPECT_EQ(result.comparisons, judge_one(kAgree, evidence, nullptr, kReached).comparisons);
  EXPECT_EQ(judge_one(ranks_finish(), evidence, nullptr, kNotReached).verdict, Verdict::undecided);
}

TEST(Trigger, ThatIsMissingHidesNoViolation) {
  LiteralEvidence files(2);
  const StepReader evidence = observe(files, 2).write();
  const ClaimResult result = judge_one(kAgree, evidence, nullptr, kNotReached);
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.size(), 1U);
  const std::vector<RankExit> dead{end_at(0, 0), end_at(1, 0, ExitKind::signalled)};
  EXPECT_EQ(judge_one(ranks_finish(), evidence, nullptr, dead).verdict, Verdict::violated);
}

TEST(Trigger, ThatIsMissingDoesNotReplaceAnotherReason) {
  LiteralEvidence files(2);
  const StepReader evidence = files.write();
  const ClaimResult result = judge_one(kAgree, evidence, nullptr, kNotReached);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, judge_one(kAgree, evidence, nullptr, kReached).reason);
}

/// A cell whose claims all have this verdict, with exits that did or did not reach the line.
CellRecord cell_with(Verdict verdict, const std::vector<RankExit>& exits, bool not_triggered) {
  CellRecord cell;
  cell.processes = 2;
  cell.claims = {kAgree};
  cell.exits = exits;
  ClaimResult& result = cell.results.emplace_back();
  result.claim = kAgree;
  result.verdict = verdict;
  if (verdict == Verdict::violated) result.findings.push_back({.claim = kAgree, .step = 1});
  cell.expectation.not_triggered = not_triggered;
  check_expectation(cell);
  return cell;
}

MATCHER_P(IsTrigger, outcome, "") {
  return arg.promise == "is not triggered" && arg.result == outcome && !arg.text.empty();
}

TEST(NotTriggered, IsFoundWhereNoRankReachedThePlace) {
  const CellRecord cell = cell_with(Verdict::undecided, kNotReached, true);
  EXPECT_EQ(cell.verdict, CellVerdict::as_expected);
  EXPECT_THAT(cell.checks, Contains(IsTrigger(Check::Result::found)));
  EXPECT_EQ(cell.checks.at(0).result, Check::Result::as_promised) << "the claim may stay open";
}

TEST(NotTriggered, IsMissedWhereARankReachedThePlace) {
  const CellRecord cell = cell_with(Verdict::holds, kReached, true);
  EXPECT_EQ(cell.verdict, CellVerdict::missed);
  EXPECT_THAT(cell.checks, Contains(IsTrigger(Check::Result::missed)));
}

TEST(NotTriggered, ForgivesNoViolation) {
  EXPECT_EQ(cell_with(Verdict::violated, kNotReached, true).verdict, CellVerdict::false_alarm);
}

TEST(NotTriggered, IsNotCheckedWhereItWasNotDeclared) {
  const CellRecord cell = cell_with(Verdict::undecided, kNotReached, false);
  EXPECT_EQ(cell.verdict, CellVerdict::undecided);
  EXPECT_EQ(cell.checks.size(), 1U);
}

TEST(NotTriggered, DoesNotForgiveADeclaredBreakThatStaysOpen) {
  CellRecord cell = cell_with(Verdict::undecided, kNotReached, true);
  cell.expectation.breaks = {kAgree};
  check_expectation(cell);
  EXPECT_EQ(cell.verdict, CellVerdict::undecided);
}

}  // namespace
}  // namespace lockstep
