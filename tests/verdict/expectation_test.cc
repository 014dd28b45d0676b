#include "harness/verdict/expectation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

const Claim kGradientsAgree = agree_across_ranks(Kind::gradient, Phase::pre_step);

ClaimResult result_of(const Claim& claim, Verdict verdict) {
  ClaimResult result;
  result.claim = claim;
  result.verdict = verdict;
  if (verdict == Verdict::violated) result.findings.push_back({.claim = claim, .step = 1});
  return result;
}

CellRecord cell_with(Verdict agree, Verdict finish = Verdict::holds) {
  CellRecord cell;
  cell.processes = 2;
  cell.claims = {kGradientsAgree, ranks_finish()};
  cell.results = {result_of(kGradientsAgree, agree), result_of(ranks_finish(), finish)};
  return cell;
}

CellVerdict verdict_of(CellRecord cell) {
  check_expectation(cell);
  return cell.verdict;
}

/// A rank that raised `error` in step 3, `lag` steps after the damage.
CellRecord raising_cell(const std::string& error, std::optional<std::int64_t> lag = std::nullopt) {
  CellRecord cell = cell_with(Verdict::holds, Verdict::violated);
  Finding& finding = cell.results[1].findings[0];
  finding.step = 3;
  finding.failure = RankFailure{1, "raised an error", error, "", lag};
  return cell;
}

TEST(Expectation, OfNothingIsMetByNothing) {
  EXPECT_EQ(verdict_of(cell_with(Verdict::holds)), CellVerdict::as_expected);
}

TEST(Expectation, CallsAnUndeclaredViolationAFalseAlarm) {
  EXPECT_EQ(verdict_of(cell_with(Verdict::violated)), CellVerdict::false_alarm);
}

TEST(Expectation, OfABreakIsFoundOrMissed) {
  CellRecord found = cell_with(Verdict::violated);
  found.expectation.breaks = {kGradientsAgree};
  EXPECT_EQ(verdict_of(found), CellVerdict::as_expected);
  CellRecord missed = cell_with(Verdict::holds);
  missed.expectation.breaks = {kGradientsAgree};
  EXPECT_EQ(verdict_of(missed), CellVerdict::missed);
}

TEST(Expectation, StaysUndecidedWithAClaim) {
  EXPECT_EQ(verdict_of(cell_with(Verdict::undecided)), CellVerdict::undecided);
  CellRecord declared = cell_with(Verdict::undecided);
  declared.expectation.breaks = {kGradientsAgree};
  EXPECT_EQ(verdict_of(declared), CellVerdict::undecided);
}

TEST(Expectation, OfAMismatchIsUndecidedWhereNoCollectiveIsOnRecord) {
  for (const std::int64_t compared : {0, 3}) {
    CellRecord cell = cell_with(Verdict::holds, Verdict::violated);
    cell.expectation.breaks = {ranks_finish()};
    cell.expectation.symptom = SymptomKind::mismatched;
    cell.symptom.kind = SymptomKind::not_finished;
    cell.results.push_back(result_of(collectives_match(), Verdict::undecided));
    cell.results.back().comparisons = compared;
    check_expectation(cell);
    EXPECT_EQ(cell.checks.back().result,
              compared == 0 ? Check::Result::undecided : Check::Result::missed);
  }
}

TEST(Expectation, OfAClaimThatNobodyJudgesIsMissed) {
  CellRecord cell = cell_with(Verdict::holds);
  cell.expectation.breaks = {agree_across_ranks(Kind::buffer, Phase::pre_forward)};
  EXPECT_EQ(verdict_of(cell), CellVerdict::missed);
}

TEST(Expectation, OfALostRankForgivesWhatCouldNotBeSeen) {
  CellRecord cell = cell_with(Verdict::undecided, Verdict::violated);
  cell.expectation.breaks = {ranks_finish()};
  EXPECT_EQ(verdict_of(cell), CellVerdict::as_expected);
  cell.expectation.breaks = {};
  EXPECT_EQ(verdict_of(cell), CellVerdict::false_alarm);
}

TEST(Expectation, OfAnErrorMatchesItsFragmentStepAndLag) {
  CellRecord cell = raising_cell("marked as ready twice. And more.", 1);
  cell.expectation.raises = {{"ready twice", 3, 1}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::as_expected);
  cell.expectation.raises = {{"ready twice", 0, 1}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::as_expected);
  cell.expectation.raises = {{"ready twice", 2, 1}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::missed);
  cell.expectation.raises = {{"ready twice", 3, 0}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::missed);
}

TEST(Expectation, DoesNotAcceptAnotherError) {
  CellRecord cell = raising_cell("something else");
  cell.expectation.raises = {{"ready twice", 0, 0}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::false_alarm);
}

TEST(Expectation, OfAnErrorIsMissedWhenNothingRaises) {
  CellRecord cell = cell_with(Verdict::holds);
  cell.expectation.raises = {{"ready twice", 0, 0}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::missed);
}

TEST(Expectation, MatchesWhatALibraryPrintedBeforeItAborted) {
  CellRecord cell = raising_cell("");
  cell.results[1].findings[0].failure->last_output =
      "terminate ... op.preamble.length <= op.nbytes";
  cell.expectation.raises = {{"op.preamble.length <= op.nbytes", 0, 0}};
  EXPECT_EQ(verdict_of(cell), CellVerdict::as_expected);
}

TEST(Expectation, OfARankThatIsToBeLostForgivesNothingWhenAllFinished) {
  CellRecord cell = cell_with(Verdict::undecided, Verdict::holds);
  cell.expectation.breaks = {ranks_finish()};
  check_expectation(cell);
  EXPECT_EQ(cell.checks.at(0).result, Check::Result::undecided);
}

TEST(Expectation, OfALostRankDoesNotForgiveADeclaredBreakThatCouldNotBeSeen) {
  CellRecord cell = cell_with(Verdict::undecided, Verdict::violated);
  cell.expectation.breaks = {kGradientsAgree, ranks_finish()};
  EXPECT_EQ(verdict_of(cell), CellVerdict::undecided);
}

TEST(Expectation, OfALostRankTakesAnyErrorWhenItNamesNone) {
  CellRecord cell = raising_cell("whatever");
  cell.expectation.breaks = {ranks_finish()};
  EXPECT_EQ(verdict_of(cell), CellVerdict::as_expected);
}

TEST(Expectation, LooksAtWhatWasPrintedOnlyWhereNothingWasRaised) {
  CellRecord cell = raising_cell("something else");
  cell.results[1].findings[0].failure->last_output = "ready twice";
  cell.expectation.raises = {{"ready twice", 0, 0}};
  EXPECT_NE(verdict_of(cell), CellVerdict::as_expected);
}

TEST(Expectation, CanBeCheckedAgain) {
  CellRecord cell = cell_with(Verdict::holds);
  check_expectation(cell);
  const std::vector<Check> once = cell.checks;
  check_expectation(cell);
  EXPECT_EQ(cell.checks, once);
}

TEST(Expectation, OfATableThatIsNotMetIsMissed) {
  CellRecord cell = cell_with(Verdict::holds);
  check_expectation(cell);
  add_check(cell, "meets seed", "");
  EXPECT_EQ(cell.verdict, CellVerdict::as_expected);
  add_check(cell, "meets seed", "1 of 10 values is not met");
  EXPECT_EQ(cell.verdict, CellVerdict::missed);
}

/// A cell that breaks `kGradientsAgree` as declared, with `promised` as its expected symptom.
CellRecord coming_to(SymptomKind kind, SymptomKind promised) {
  CellRecord cell = cell_with(Verdict::violated);
  cell.expectation.breaks = {kGradientsAgree};
  cell.expectation.symptom = promised;
  cell.symptom.kind = kind;
  cell.symptom.text = "ranks differ from step 2 on: w";
  return cell;
}

TEST(Expectation, OfAnOutcomeIsMetByThatOneOnly) {
  CellRecord met = coming_to(SymptomKind::ranks_differ, SymptomKind::ranks_differ);
  check_expectation(met);
  EXPECT_EQ(met.verdict, CellVerdict::as_expected);
  EXPECT_EQ(met.checks.back(),
            (Check{"results in 'ranks differ'", Check::Result::as_promised, ""}));
  CellRecord missed = coming_to(SymptomKind::ranks_differ, SymptomKind::agree_but_wrong);
  check_expectation(missed);
  EXPECT_EQ(missed.verdict, CellVerdict::missed);
  EXPECT_EQ(missed.checks.back(), (Check{"results in 'agree but wrong'", Check::Result::missed,
                                         "it resulted in: ranks differ from step 2 on: w"}));
}

TEST(Expectation, OfAnOutcomeIsOpenWhereNothingCouldBeDecided) {
  CellRecord cell = coming_to(SymptomKind::undecided, SymptomKind::right);
  check_expectation(cell);
  EXPECT_EQ(cell.checks.back().result, Check::Result::undecided);
}

TEST(Expectation, OfNoOutcomeChecksNone) {
  CellRecord cell = coming_to(SymptomKind::raised, SymptomKind::raised);
  cell.expectation.symptom.reset();
  check_expectation(cell);
  EXPECT_THAT(cell.checks, testing::SizeIs(2));
}

TEST(Expectation, OfACellThatDoesNotApplyIsNotChecked) {
  CellRecord cell;
  cell.expectation.not_applicable = "supports world sizes 2, 3, 4";
  EXPECT_EQ(verdict_of(cell), CellVerdict::not_applicable);
}

}  // namespace
}  // namespace lockstep
