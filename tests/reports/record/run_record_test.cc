#include "reports/record/run_record.h"

#include <gtest/gtest.h>

#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

TEST(RankExit, SaysHowARankEnded) {
  EXPECT_EQ(exit_in_words({.kind = ExitKind::finished}), "finished");
  EXPECT_EQ(exit_in_words({.kind = ExitKind::raised, .code = 1}), "raised an error");
  EXPECT_EQ(exit_in_words({.kind = ExitKind::exited, .code = 3}), "exited with status 3");
  EXPECT_EQ(exit_in_words({.kind = ExitKind::signalled, .code = 6, .detail = "SIGABRT"}),
            "was killed by signal 6 (SIGABRT)");
  EXPECT_EQ(
      exit_in_words(
          {.kind = ExitKind::unfinished, .detail = "limit of 2 s", .cause = ExitCause::time_limit}),
      "did not finish within its limit of 2 s");
  EXPECT_EQ(exit_in_words({.kind = ExitKind::unfinished, .detail = "stopped by SIGSTOP"}),
            "did not finish (stopped by SIGSTOP)");
  EXPECT_EQ(exit_in_words({.kind = ExitKind::unstarted, .detail = "out of memory"}),
            "could not be started (out of memory)");
}

ExitStatus status_of(const std::vector<CellVerdict>& verdicts) {
  RunRecord run;
  for (const CellVerdict verdict : verdicts) run.cells.emplace_back().verdict = verdict;
  return exit_status(run);
}

TEST(ExitStatus, IsThatOfTheWorstCell) {
  using enum CellVerdict;
  EXPECT_EQ(status_of({as_expected, not_applicable}), ExitStatus::as_expected);
  EXPECT_EQ(status_of({as_expected, undecided, missed}), ExitStatus::failed);
  EXPECT_EQ(status_of({undecided, false_alarm}), ExitStatus::failed);
  EXPECT_EQ(status_of({as_expected, undecided, not_applicable}), ExitStatus::undecided);
}

TEST(ExitStatus, IsThreeWhenNothingRan) {
  EXPECT_EQ(status_of({}), ExitStatus::not_applicable);
  EXPECT_EQ(status_of({CellVerdict::not_applicable}), ExitStatus::not_applicable);
}

TEST(ExitStatus, IsThreeForAJobWhoseOneRankHasNoOther) {
  JobRecord job;
  job.symptom.kind = SymptomKind::undecided;
  job.exits.push_back({.kind = ExitKind::finished});
  ClaimResult& result = job.results.emplace_back();
  result.claim = agree_across_ranks(Kind::parameter, Phase::post_step);
  result.verdict = Verdict::undecided;
  EXPECT_EQ(status_of(job), ExitStatus::not_applicable);
  job.exits[0].kind = ExitKind::unfinished;
  EXPECT_EQ(status_of(job), ExitStatus::undecided);
  job.exits[0].kind = ExitKind::finished;
  result.comparisons = 1;
  EXPECT_EQ(status_of(job), ExitStatus::undecided);
}

}  // namespace
}  // namespace lockstep
