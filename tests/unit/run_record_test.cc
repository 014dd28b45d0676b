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
