// Which scenario of the catalogue a report of a job names.

#include "reports/formats/alike_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"
#include "tests/reports/formats/literal_jobs.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

JobRecord failed_job() {
  JobRecord job = literal_job("3f9c2a");
  job.results[0].verdict = Verdict::violated;
  job.results[0].findings = {literal_divergence()};
  job.symptom = literal_outcome(SymptomKind::ranks_differ, "ranks differ from step 1 on: weight");
  return job;
}

std::string report_of(const JobRecord& job) {
  RunRecord run;
  run.jobs = {job};
  return render_screen(run, {.verbosity = Verbosity::overview});
}

TEST(AlikeScenario, IsThatOfTheReasonThatExplainsTheDifference) {
  JobRecord job = failed_job();
  job.unreduced = {{.reason = NoReduction::added_after}, {.reason = NoReduction::bypassed}};
  EXPECT_EQ(alike_in_words(job), "");
  job.unreduced[1].explains = true;
  EXPECT_THAT(report_of(job),
              HasSubstr("  alike in the catalogue: loss-on-unwrapped-module, mended by "
                        "through-wrapper or all-reduce-each\n"));
  job.unreduced[1].reason = NoReduction::no_sync;
  EXPECT_THAT(report_of(job), Not(HasSubstr("alike in"))) << "a cause without a scenario";
}

TEST(AlikeScenario, IsThatOfTheErrorOfARank) {
  JobRecord job = failed_job();
  RankFailure failure;
  failure.error = "RuntimeError: Expected to mark a variable ready only once. This error is caused";
  job.results[1].verdict = Verdict::violated;
  job.results[1].findings.emplace_back().failure = failure;
  EXPECT_THAT(alike_in_words(job), HasSubstr("reentrant-checkpoint-under-ddp"));
  job.results[1].findings[0].failure->error =
      "RuntimeError: expect_autograd_hooks_ INTERNAL ASSERT FAILED at \"reducer.cpp\":1705";
  EXPECT_THAT(alike_in_words(job), HasSubstr("static-graph-with-no-sync"));
  job.results[1].findings[0].failure->error = "RuntimeError: out of patience";
  EXPECT_EQ(alike_in_words(job), "");
}

TEST(AlikeScenario, IsThatOfHowGradientsWereReduced) {
  JobRecord job = failed_job();
  job.results[1].verdict = Verdict::violated;
  job.results[1].findings.emplace_back().kind = FindingKind::divided_by_world_size;
  EXPECT_THAT(alike_in_words(job), HasSubstr("averaged-twice, mended by divided-by-ddp"));
  job.results[1].findings.back().kind = FindingKind::same_samples;
  EXPECT_THAT(alike_in_words(job), HasSubstr("same-batch-on-every-rank, mended by divided"));
}

TEST(AlikeScenario, IsThatOfCollectivesThatDoNotMatch) {
  JobRecord job = failed_job();
  job.mismatch.emplace().fault = MismatchFault::count;
  EXPECT_THAT(alike_in_words(job), HasSubstr("uneven-batches-hang, mended by join"));
  job.mismatch->fault = MismatchFault::missing;
  EXPECT_EQ(alike_in_words(job), "") << "any rank may be late";
}

TEST(AlikeScenario, IsNoneOfAJobWithoutAFault) {
  JobRecord job = literal_job("3f9c2a");
  job.unreduced = {{.reason = NoReduction::bypassed, .explains = true}};
  EXPECT_EQ(alike_in_words(job), "");
}

}  // namespace
}  // namespace lockstep
