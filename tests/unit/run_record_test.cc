#include "reports/run_record.h"

#include <gtest/gtest.h>

#include "tests/golden/literal_run.h"

namespace lockstep {
namespace {

TEST(RankEnd, SaysHowARankEnded) {
  EXPECT_EQ(how({.ending = Ending::finished}), "finished");
  EXPECT_EQ(how({.ending = Ending::raised, .code = 1}), "raised an error");
  EXPECT_EQ(how({.ending = Ending::exited, .code = 3}), "exited with status 3");
  EXPECT_EQ(how({.ending = Ending::signalled, .code = 6, .detail = "SIGABRT"}),
            "was killed by signal 6 (SIGABRT)");
  EXPECT_EQ(how({.ending = Ending::unfinished, .detail = "limit of 2 s"}),
            "did not finish within its limit of 2 s");
  EXPECT_EQ(how({.ending = Ending::unfinished, .detail = "stopped by SIGSTOP"}),
            "did not finish (stopped by SIGSTOP)");
  EXPECT_EQ(how({.ending = Ending::unstarted, .detail = "out of memory"}),
            "could not be started (out of memory)");
}

TEST(Detections, CountPerScenarioInTheOrderOfTheRecord) {
  const std::vector<Detection> lines = detections(literal_run());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], (Detection{.scenario = "loss-on-unwrapped-module",
                                 .cells = 8,
                                 .found = 2,
                                 .declared = 2,
                                 .false_alarms = 2,
                                 .undecided = 1,
                                 .as_expected = 5}));
  EXPECT_EQ(lines[1], (Detection{.scenario = "error-after-damage",
                                 .cells = 2,
                                 .found = 1,
                                 .declared = 2,
                                 .missed = 1,
                                 .not_applicable = 1}));
}

TEST(Detections, CountACellThatWasNotJudgedAsUndecided) {
  RunRecord run;
  run.cells = {literal_undecided()};
  run.cells[0].checks.clear();
  EXPECT_EQ(detections(run)[0].undecided, 1);
}

TEST(Detections, DeclareNothingForACellThatIsNotApplicable) {
  RunRecord run;
  run.cells = {literal_not_applicable()};
  run.cells[0].expectation.breaks = {ranks_finish()};
  EXPECT_EQ(detections(run)[0].declared, 0);
}

int declared_by(const std::vector<Claim>& claims, const std::vector<Claim>& breaks) {
  RunRecord run;
  run.cells = {CellRecord{}};
  run.cells[0].claims = claims;
  run.cells[0].expectation.breaks = breaks;
  run.cells[0].expectation.raises = {{"ready twice", 0, 0}};
  return detections(run)[0].declared;
}

TEST(Detections, CountTheEndOfRanksThatADeclaredErrorBreaksOnce) {
  EXPECT_EQ(declared_by({ranks_finish()}, {}), 2);
  EXPECT_EQ(declared_by({ranks_finish()}, {ranks_finish()}), 2);
  EXPECT_EQ(declared_by({}, {}), 1);
}

TEST(Detections, CountWhatIsMeantNotToBeTriggered) {
  RunRecord run;
  run.cells = {literal_not_triggered()};
  EXPECT_EQ(detections(run)[0].declared, 1);
  EXPECT_EQ(detections(run)[0].found, 1);
  run.cells[0].checks[0].outcome = Check::Outcome::missed;
  EXPECT_EQ(detections(run)[0].declared, 1);
  EXPECT_EQ(detections(run)[0].found, 0);
}

TEST(Detections, CountACellWithoutChecksByItsVerdict) {
  RunRecord run;
  run.cells.emplace_back().verdict = CellVerdict::as_expected;
  EXPECT_EQ(detections(run)[0].undecided, 0);
}

int status_of(const std::vector<CellVerdict>& verdicts) {
  RunRecord run;
  for (const CellVerdict verdict : verdicts) run.cells.emplace_back().verdict = verdict;
  return exit_status(run);
}

TEST(ExitStatus, IsThatOfTheWorstCell) {
  using enum CellVerdict;
  EXPECT_EQ(status_of({as_expected, not_applicable}), 0);
  EXPECT_EQ(status_of({as_expected, undecided, missed}), 1);
  EXPECT_EQ(status_of({undecided, false_alarm}), 1);
  EXPECT_EQ(status_of({as_expected, undecided, not_applicable}), 2);
}

TEST(ExitStatus, IsThreeWhenNothingRan) {
  EXPECT_EQ(status_of({}), 3);
  EXPECT_EQ(status_of({CellVerdict::not_applicable}), 3);
}

}  // namespace
}  // namespace lockstep
