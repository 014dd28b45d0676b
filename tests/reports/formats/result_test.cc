#include "reports/record/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/formats/renderer.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kSegmentationFault = "rank 0 was killed by signal 11 (SIGSEGV) in step 288";

Check check_of(const ClaimResult& result, Check::Result outcome) {
  return {"keeps " + sentence(result.claim), outcome, result.reason, result.claim};
}

/// A fix whose rank 0 is killed, so all other claims are undecided.
CellRecord killed() {
  CellRecord cell = literal_cell("nasty", "regressed", Role::fixed, CellVerdict::false_alarm);
  cell.results[0].verdict = Verdict::undecided;
  cell.results[0].reason = "nothing was observed in step 289 of 3000";
  cell.results[1].verdict = Verdict::violated;
  cell.results[1].findings = {
      literal_failure(0, "was killed by signal 11 (SIGSEGV)", "", "the last words")};
  cell.results[1].findings[0].sentence =
      std::string(kSegmentationFault) + ". Rank 1 waits for it in collective 865.";
  cell.exits[0] = {0, ExitKind::signalled, 11, 0, 288, "", "SIGSEGV", "the last words"};
  cell.exits[1] = {1, ExitKind::unfinished, 0, 1, 289, "", "ended after rank 0", ""};
  cell.symptom = {.kind = SymptomKind::not_finished,
                  .step = 288,
                  .text = std::string("not finished: ") + kSegmentationFault};
  cell.checks = {check_of(cell.results[0], Check::Result::undecided),
                 check_of(cell.results[1], Check::Result::false_alarm)};
  return cell;
}

/// A fix that sums instead of averaging.
CellRecord summed() {
  CellRecord cell = literal_cell("nasty", "regressed", Role::fixed, CellVerdict::false_alarm);
  Finding finding = literal_divergence();
  finding.claim = equal_reference(Kind::gradient, Phase::pre_step);
  finding.ratio = 2;
  finding.cosine = 1;
  finding.sentence = "gradients do not equal the reference.";
  cell.results[0].claim = finding.claim;
  cell.results[0].verdict = Verdict::violated;
  cell.results[0].findings = {finding};
  cell.symptom = literal_outcome(SymptomKind::agree_but_wrong, "ranks agree but are wrong");
  cell.checks[0] = check_of(cell.results[0], Check::Result::false_alarm);
  return cell;
}

CellRecord interrupted() {
  CellRecord cell = literal_cell("nasty", "late", Role::fixed, CellVerdict::undecided);
  cell.processes = 0;
  cell.results.clear();
  cell.exits.clear();
  cell.checks = {{"is run", Check::Result::undecided, "the run was interrupted before this cell"}};
  return cell;
}

/// A cell whose rendezvous the machine prevented.
CellRecord unmet() {
  CellRecord cell = interrupted();
  cell.processes = 2;
  cell.not_run = NotRun{NotRunCause::no_rendezvous,
                        "the ranks could not meet: rank 1 raised: Too many open files"};
  cell.checks = {{"is run", Check::Result::undecided, cell.not_run->reason}};
  return cell;
}

std::string console_of(const CellRecord& cell) {
  const std::string text = render_console(literal_run_of({cell}));
  const std::size_t begin = text.find("\n\n", text.find("===")) + 2;
  const std::size_t cost = text.find("\n\nCost of a step", begin);
  return text.substr(begin, std::min(cost, text.find("\n\nscenario ", begin)) - begin + 1);
}

TEST(Result, OfAFixThatRegressedIsAFailureAndNoFalseAlarm) {
  EXPECT_EQ(result_of(summed()), Result::failed);
  EXPECT_THAT(console_of(summed()),
              StartsWith("FAILED: regressed (fixed, must be right): gradients are 2 times the "
                         "reference from step 1 on: weight\n"));
  for (const Renderer& renderer : renderers()) {
    if (renderer.format == "json" || renderer.format == "keys") continue;
    EXPECT_THAT(renderer.render(literal_run_of({summed(), killed()})),
                AllOf(HasSubstr("FAILED"), Not(HasSubstr("false alarm"))))
        << renderer.format;
  }
}

TEST(Result, OfValuesThatMovedALittleNamesNoFactor) {
  CellRecord cell = summed();
  cell.results[0].findings[0].ratio = 1.00004;
  cell.symptom.text = "ranks agree but are wrong from step 1 on: weight";
  EXPECT_THAT(console_of(cell), StartsWith("FAILED: regressed (fixed, must be right): ranks agree "
                                           "but are wrong from step 1 on: weight\n"));
}

TEST(Result, OfABugThatDidNotShowIsNotFound) {
  CellRecord cell = literal_buggy();
  cell.verdict = CellVerdict::missed;
  cell.checks[0].result = Check::Result::missed;
  EXPECT_EQ(result_of(cell), Result::not_found);
  EXPECT_THAT(console_of(cell),
              StartsWith("NOT FOUND: bypass (buggy, must fail as declared): expected \"gradients "
                         "agree across ranks\" to be\n    violated, but it holds\n"));
}

TEST(Result, OfABugThatIsRightInsteadIsNotFound) {
  CellRecord cell = literal_buggy();
  cell.verdict = CellVerdict::missed;
  cell.symptom = literal_outcome(SymptomKind::right, "right");
  EXPECT_EQ(result_of(cell), Result::not_found);
}

TEST(Result, OfAFixThatMeetsNoTableIsAFailure) {
  CellRecord cell = literal_fixed(1);
  cell.verdict = CellVerdict::missed;
  cell.checks.push_back({"meets opentslm-49-drift", Check::Result::missed, "1 of 10 is not met"});
  EXPECT_EQ(result_of(cell), Result::failed);
  EXPECT_EQ(cause_of(cell), "expected that it meets opentslm-49-drift, but 1 of 10 is not met");
}

TEST(Result, OfABugThatShowsSomethingElseIsAFailure) {
  CellRecord cell = literal_buggy();
  cell.verdict = CellVerdict::missed;
  cell.checks[1].result = Check::Result::as_promised;
  cell.checks[2] = {"results in 'agree but wrong'", Check::Result::missed,
                    "it resulted in: ranks differ from step 1 on: weight"};
  EXPECT_EQ(result_of(cell), Result::failed);
  EXPECT_THAT(cause_of(cell), HasSubstr("expected that it results in 'agree but wrong', but"));
}

TEST(Result, OfACellThatWasNotRunIsSaidWithItsReason) {
  EXPECT_EQ(result_of(literal_not_applicable()), Result::not_run);
  EXPECT_EQ(result_of(interrupted()), Result::not_run);
  const std::string text =
      render_console(literal_run_of({literal_not_applicable(), interrupted()}));
  EXPECT_THAT(text, HasSubstr("NOT RUN: averaged (wrong-fix): needs at least 3 ranks"));
  EXPECT_THAT(text, HasSubstr("NOT RUN: late (fixed): the run was interrupted before this cell\n"));
}

TEST(Result, OfCellsThatAnInterruptedRunLeftOutIsSaidOnce) {
  CellRecord another = interrupted();
  another.cell.variant = "later";
  EXPECT_THAT(render_console(literal_run_of({interrupted(), another})),
              HasSubstr("NOT RUN: late (fixed), later (fixed): the run was interrupted"));
}

TEST(Cause, OfAKilledRankStandsFirstAndItsConsequencesBehindIt) {
  EXPECT_EQ(cause_of(killed()), kSegmentationFault);
  EXPECT_THAT(console_of(killed()),
              StartsWith("FAILED: regressed (fixed, must be right): rank 0 was killed by signal 11 "
                         "(SIGSEGV) in step 288\n"
                         "  Rank 1 waits for it in collective 865.\n"
                         "    last output of rank 0:\n"
                         "    | the last words\n"
                         "  Nothing else could be decided.\n"
                         "  source: "));
}

TEST(Cause, OfRanksThatWereStillAtWorkAtTheLimitIsToldOnce) {
  CellRecord cell = killed();
  cell.verdict = CellVerdict::undecided;
  cell.results[1] = {
      ranks_finish(), Verdict::undecided, "still making progress", 2, {}, {}, "", {}};
  cell.checks[1] = check_of(cell.results[1], Check::Result::undecided);
  cell.symptom = {.text = "undecided: still making progress at the limit of 2 s: step 209 of 3000"};
  EXPECT_THAT(console_of(cell),
              StartsWith("UNDECIDED: regressed (fixed): still making progress at the limit of 2 s: "
                         "step 209 of 3000\n  Nothing else could be decided.\n"));
}

TEST(Cause, OfAMismatchIsNotToldTwice) {
  CellRecord cell = killed();
  const std::string sentence = "ranks disagree on the size of collective 3 of the group world";
  cell.symptom = {.kind = SymptomKind::mismatched, .step = 288, .text = "mismatched: " + sentence};
  cell.results[1].findings[0].sentence = "R" + sentence.substr(1) + ". Rank 0 raised an error.";
  EXPECT_THAT(console_of(cell),
              AllOf(HasSubstr("): " + sentence.substr(0, 30)),
                    HasSubstr("\n  Rank 0 raised an error.\n"), Not(HasSubstr("Ranks disagree"))));
}

TEST(Mismatch, OutsideOfStepsIsSaidToBeBeforeOrAfterThem) {
  const CallOfRank call{"barrier", "", true, 2};
  CollectiveMismatch missed = literal_mismatch();
  missed.number = 9;
  missed.rows = {
      {1, 0, {call, call}, false}, {8, 4, {call, call}, false}, {9, 0, {call, {}}, true}};
  CellRecord cell = killed();
  cell.mismatch = missed;
  EXPECT_THAT(console_of(cell), AllOf(HasSubstr("\n      1  before step 1  ranks 0,1: barrier"),
                                      HasSubstr("\n      8  step 4  ranks 0,1: barrier"),
                                      HasSubstr("\n    ! 9  after step 4  rank 0: barrier")));
}

/// Findings from before the exit are no consequence of it.
TEST(Cause, OfAnEndingNamesWhatStayedOpenWhereOtherClaimsWereDecided) {
  CellRecord cell = killed();
  ClaimResult held = cell.results[0];
  held.claim = agree_across_ranks(Kind::loss, Phase::pre_forward);
  cell.checks.push_back({"keeps losses", Check::Result::as_promised, "", held.claim});
  EXPECT_THAT(console_of(cell), HasSubstr("\n  This leaves undecided: \"gradients agree "
                                          "across ranks\".\n"));
}

TEST(Cause, OfAnUnexpectedFindingBesideADeclaredEndingIsThatFinding) {
  CellRecord cell = killed();
  cell.expectation.breaks = {ranks_finish()};
  cell.checks[1].result = Check::Result::found;
  cell.checks[0].result = Check::Result::false_alarm;
  cell.checks[0].text.clear();
  EXPECT_EQ(cause_of(cell),
            "expected \"gradients agree across ranks\" to hold, but it is violated");
}

TEST(Cause, OfTheSameErrorOnSeveralRanksIsToldOnce) {
  CellRecord cell = killed();
  cell.symptom.kind = SymptomKind::raised;
  cell.symptom.step = 2;
  cell.symptom.error = "Expected to mark a variable ready only once.";
  cell.symptom.text = "raised in step 2: " + cell.symptom.error;
  cell.results[1].findings.clear();
  for (int rank = 0; rank < 5; ++rank) {
    cell.results[1].findings.push_back(literal_failure(
        rank, "raised an error", "Expected to mark a variable ready only once", ""));
    cell.results[1].findings.back().failure->error += ". And more.";
  }
  const std::string text = console_of(cell);
  EXPECT_THAT(text,
              StartsWith("FAILED: regressed (fixed, must be right): ranks 0-4 raised an error "
                         "in step 2: Expected to mark a\n    variable ready only once\n"
                         "  Nothing else"));
}

/// The element of a run's only test case.
std::string junit_of(const CellRecord& cell) {
  const std::string text = render_junit(literal_run_of({cell}));
  const std::size_t begin = text.find("<testcase");
  return text.substr(begin, text.find("<system-out>") - begin);
}

TEST(Junit, HasTheCauseAsItsMessageAndAStableWordAsItsType) {
  EXPECT_THAT(junit_of(killed()),
              AllOf(HasSubstr("name=\"regressed[w2]\""),
                    HasSubstr(std::string("<failure type=\"rank died\" message=\"") +
                              kSegmentationFault + "\">")));
  EXPECT_THAT(junit_of(summed()),
              HasSubstr("<failure type=\"wrong values\" message=\"gradients are 2 times the "
                        "reference from step 1 on: weight"));
  CellRecord unmet = literal_fixed(1);
  unmet.verdict = CellVerdict::missed;
  unmet.checks.push_back({"meets opentslm-49-drift", Check::Result::missed, "1 of 10 is not met"});
  EXPECT_THAT(junit_of(unmet), HasSubstr("<failure type=\"unexpected finding\" message=\"expected "
                                         "that it meets opentslm-49-drift, but 1 of 10"));
}

TEST(Junit, TellsAHangFromADeathAndFromAMismatch) {
  CellRecord cell = killed();
  for (RankExit& end : cell.exits) end.kind = ExitKind::unfinished;
  EXPECT_THAT(junit_of(cell), HasSubstr("<failure type=\"hang\""));
  cell.symptom.kind = SymptomKind::mismatched;
  EXPECT_THAT(junit_of(cell), HasSubstr("<failure type=\"mismatch\""));
  cell.symptom.kind = SymptomKind::raised;
  EXPECT_THAT(junit_of(cell), HasSubstr("<failure type=\"error raised\""));
}

TEST(Junit, MakesAnErrorOfACellThatAnInterruptedRunLeftOut) {
  EXPECT_THAT(junit_of(interrupted()),
              HasSubstr("<error type=\"interrupted\" message=\"the run was interrupted before"));
  EXPECT_THAT(junit_of(literal_not_applicable()),
              HasSubstr("<skipped type=\"not applicable\" message=\"needs at least 3 ranks"));
}

TEST(Junit, NamesTheFileOfAScenarioWithoutALine) {
  CellRecord cell = interrupted();
  for (const char* source : {"scenarios/a.cc:41", "scenarios/a.cc"}) {
    cell.source = source;
    EXPECT_THAT(render_junit(literal_run_of({cell})), HasSubstr(" file=\"scenarios/a.cc\">"));
  }
}

TEST(CellThatTheMachineFailed, IsNotRunAndAnErrorOfJUnit) {
  EXPECT_EQ(result_of(unmet()), Result::not_run);
  EXPECT_EQ(cause_of(unmet()), "the ranks could not meet: rank 1 raised: Too many open files");
  EXPECT_THAT(
      junit_of(unmet()),
      HasSubstr("<error type=\"machine failed\" message=\"the ranks could not meet: rank 1"));
}

TEST(Junit, HasNoSpacesInTheNamesOfItsCases) {
  CellRecord cell = literal_odd_one_out();
  cell.cell.backend = Backend::mpi;
  cell.cell.device = DeviceKind::sim;
  cell.cell.axes = {{"tiles", "4 each"}};
  EXPECT_THAT(junit_of(cell),
              HasSubstr("name=\"all-reduce-each[w2,over=mpi,on=sim,tiles=4_each,repetition=3]\""));
}

TEST(Check, SaysWhatWasExpectedAndWhatCame) {
  const Claim claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  using enum Check::Result;
  EXPECT_EQ(check_in_words({"", found, "", claim}),
            "as expected: \"gradients agree across ranks\" is violated");
  EXPECT_EQ(check_in_words({"", as_promised, "", claim}),
            "as expected: \"gradients agree across ranks\" holds");
  EXPECT_EQ(check_in_words({"", as_promised, "not triggered", claim}),
            "left undecided: \"gradients agree across ranks\": not triggered");
  EXPECT_EQ(check_in_words({"", false_alarm, "", claim}),
            "expected \"gradients agree across ranks\" to hold, but it is violated");
  EXPECT_EQ(check_in_words({"", missed, "nobody judged it", claim}),
            "expected \"gradients agree across ranks\" to be violated, but nobody judged it");
  EXPECT_EQ(check_in_words({"", undecided, "too close", claim}),
            "undecided: \"gradients agree across ranks\": too close");
  EXPECT_EQ(check_in_words({"raises \"x\"", missed, "no rank raised it"}),
            "expected that it raises \"x\", but no rank raised it");
  EXPECT_EQ(check_in_words({"repeats the first run", as_promised, ""}),
            "as expected: it repeats the first run");
}

TEST(Detections, CountCellsPerScenarioInTheOrderOfTheRecord) {
  const std::vector<Detection> lines = detections(literal_run());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], (Detection{.scenario = "loss-on-unwrapped-module",
                                 .cells = 8,
                                 .declared = 1,
                                 .found = 1,
                                 .results = {5, 2, 0, 1, 0}}));
  EXPECT_EQ(lines[1], (Detection{.scenario = "error-after-damage",
                                 .cells = 2,
                                 .declared = 1,
                                 .found = 0,
                                 .results = {0, 0, 1, 0, 1}}));
}

/// However many of its claims are violated.
TEST(Detections, AgreeWithTheSentenceBelowThem) {
  CellRecord many = summed();
  many.checks.push_back(many.checks[0]);
  many.checks.push_back(check_of(many.results[0], Check::Result::undecided));
  const std::string text =
      render_console(literal_run_of({many, literal_undecided(), interrupted()}));
  EXPECT_THAT(
      text,
      HasSubstr("\nnasty                         2      -      0.2 s  1 FAILED, 1 NOT RUN\n"));
  EXPECT_THAT(text, HasSubstr("Not everything is as expected: 3 cells, 1 FAILED, 1 UNDECIDED, "
                              "1 NOT RUN.\n"));
}

TEST(Detections, DeclareNothingForACellThatWasNotRun) {
  RunRecord run = literal_run_of({literal_not_applicable()});
  run.cells[0].expectation.breaks = {ranks_finish()};
  EXPECT_EQ(detections(run)[0].declared, 0);
}

/// A declared error implies a break of `ranks finish`, and both must be found.
TEST(Detections, FindACellWhereAllThatItDeclaresWasFound) {
  CellRecord cell = literal_missed();
  EXPECT_EQ(detections(literal_run_of({cell}))[0].found, 0);
  cell.checks.back().result = Check::Result::found;
  EXPECT_EQ(detections(literal_run_of({cell}))[0].found, 1);
  cell.checks[1].result = Check::Result::undecided;
  EXPECT_EQ(detections(literal_run_of({cell}))[0].found, 0);
}

}  // namespace
}  // namespace lockstep
