#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/manifest.h"
#include "harness/record/process_identity.h"
#include "harness/verdict/collective_lanes.h"
#include "harness/verdict/judge_run.h"
#include "reports/record/json.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/literal_job.h"

namespace lockstep {
namespace {

constexpr LiteralEvidence::Tensor kWeight{Kind::parameter, Phase::post_step, 0};

/// A job that observes a gradient and a parameter of each of some tensors in a step.
class ChartedJob {
 public:
  explicit ChartedJob(int ranks) : files_(ranks), run_(literal_run_of_job(files_, ranks)) {}

  void observe(int rank, std::int64_t step, const std::string& name, float gradient,
               float weight = 1) {
    files_.add(rank, step, name, {gradient, 0});
    files_.add(rank, step, name, {weight, 0}, kWeight);
  }

  void write() {
    files_.write_as([&](int rank) { return process_identity(run_.jobs[0], rank); });
    run_.jobs[0].manifest =
        write_manifest(files_.folder(), run_.jobs[0].processes, execution_identity(run_.jobs[0]));
  }

  RunRecord judged(IndexUse use = IndexUse::believed, bool fills_charts = true) const {
    RunRecord run = run_;
    judge_run(run, files_.folder().parent_path(), {.index = use, .fills_charts = fills_charts});
    return run;
  }

  Charts charts(IndexUse use = IndexUse::believed) const {
    return judged(use).jobs[0].charts.value();
  }

 private:
  LiteralEvidence files_;
  RunRecord run_;
};

TEST(ChartFold, HasTheNormOfEachRankInEachStep) {
  ChartedJob job(3);
  for (std::int64_t step = 1; step <= 6; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      const float apart = step == 4 && rank == 2 ? 0.5F : 0;
      job.observe(rank, step, "a", 3.0F * float(step) + apart);
      job.observe(rank, step, "b", 4.0F * float(step));
    }
  }
  job.write();
  for (const IndexUse use : {IndexUse::believed, IndexUse::checked, IndexUse::ignored}) {
    const StepSeries series = job.charts(use).series;
    EXPECT_EQ(series.observed, 6);
    EXPECT_THAT(series.steps, testing::ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(series.differing, testing::ElementsAre(0, 0, 0, 1, 0, 0));
    ASSERT_EQ(series.norms.size(), 2U);
    EXPECT_EQ(series.norms[0].ranks, (std::vector{0, 1}));
    EXPECT_EQ(series.norms[1].ranks, (std::vector{2}));
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_DOUBLE_EQ(series.norms[0].values[i], 5.0 * double(i + 1));
      EXPECT_DOUBLE_EQ(series.norms[1].values[i],
                       i == 3 ? std::hypot(12.5, 16) : 5.0 * double(i + 1));
    }
    EXPECT_DOUBLE_EQ(series.smallest_norms[3], 20);
    EXPECT_DOUBLE_EQ(series.largest_norms[3], std::hypot(12.5, 16));
  }
}

TEST(ChartFold, HasTheDriftAndZeroWhereRanksAgree) {
  ChartedJob job(2);
  for (std::int64_t step = 1; step <= 4; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      job.observe(rank, step, "a", 1, step == 3 ? 1 + 0.25F * float(rank) : 1);
    }
  }
  job.write();
  EXPECT_THAT(job.charts().series.drift, testing::ElementsAre(0, 0, 0.25, 0));
}

TEST(ChartFold, MapsOneDifferingStepOfOneTensor) {
  ChartedJob job(2);
  for (std::int64_t step = 1; step <= 50; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      for (int tensor = 0; tensor < 10; ++tensor) {
        const bool differs = step == 37 && tensor == 7 && rank == 1;
        job.observe(rank, step, fmt::format("layer.{}", tensor), differs ? 2 : 1);
      }
    }
  }
  job.write();
  const AgreementMap map = job.charts().agreement;
  EXPECT_EQ(map.tensors, 20);
  EXPECT_EQ(map.first_step, 1);
  EXPECT_EQ(map.last_step, 50);
  ASSERT_EQ(map.differing.size(), 1U);
  const TensorCourse& course = map.differing[0];
  EXPECT_EQ(course.name, "layer.7");
  EXPECT_EQ(course.kind, Kind::gradient);
  EXPECT_EQ(course.groups, (std::vector<std::vector<int>>{{0}, {1}}));
  EXPECT_EQ(course.runs, (std::vector{DifferingRun{37, 37}}));
  EXPECT_EQ(course.steps, 1);
}

TEST(ChartFold, JoinsStepsInARowToARun) {
  ChartedJob job(2);
  for (const std::int64_t step : {10, 20, 30, 40, 50, 60}) {
    const bool differs = step == 20 || step == 30 || step == 60;
    for (int rank = 0; rank < 2; ++rank) job.observe(rank, step, "a", differs ? float(rank) : 1);
  }
  job.write();
  const AgreementMap map = job.charts().agreement;
  ASSERT_EQ(map.differing.size(), 1U);
  EXPECT_EQ(map.differing[0].runs, (std::vector{DifferingRun{20, 30}, DifferingRun{60, 60}}));
  EXPECT_EQ(map.differing[0].steps, 3);
  EXPECT_EQ(map.differing[0].last, 60);
}

/// Of two ranks that agree in three steps, as far as both observe them.
void write_without_rank_1_in_step_3(ChartedJob& job) {
  for (std::int64_t step = 1; step <= 3; ++step) {
    job.observe(0, step, "a", 1);
    if (step < 3) job.observe(1, step, "a", 1);
  }
  job.write();
}

/// A rank that observed nothing has no value there, although the others agree.
TEST(ChartFold, LeavesAGapWhereARankObservedNothing) {
  ChartedJob job(2);
  write_without_rank_1_in_step_3(job);
  const StepSeries series = job.charts().series;
  ASSERT_EQ(series.norms.size(), 2U);
  EXPECT_TRUE(std::isnan(series.norms[1].values[2]));
  EXPECT_EQ(series.norms[1].values[1], 1);
}

TEST(ChartFold, ComparesNothingInAJobOfOneRank) {
  ChartedJob job(1);
  for (std::int64_t step = 1; step <= 3; ++step) job.observe(0, step, "a", 1);
  job.write();
  for (const IndexUse use : {IndexUse::believed, IndexUse::ignored}) {
    const Charts charts = job.charts(use);
    EXPECT_EQ(charts.agreement.tensors, 0);
    EXPECT_EQ(charts.series.norms.size(), 1U);
    for (const double drift : charts.series.drift) EXPECT_TRUE(std::isnan(drift));
  }
}

TEST(ChartFold, CountsTensorsOfTwoRanksAndThoseThatOneLacks) {
  ChartedJob job(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (int rank = 0; rank < 2; ++rank) job.observe(rank, step, "a", 1);
    job.observe(0, step, "b", 1);
  }
  job.write();
  const AgreementMap map = job.charts().agreement;
  EXPECT_EQ(map.tensors, 4);  // a gradient and a parameter of each
  EXPECT_EQ(map.differing.size(), 2U);
}

/// The other rank hangs, so there is nothing to have drifted from.
/// In its colours, ranks would agree there.
TEST(ChartFold, MapsNoStepThatOneRankAloneObserved) {
  ChartedJob job(2);
  for (std::int64_t step = 1; step <= 4; ++step) {
    job.observe(1, step, "a", 1);
    if (step < 4) job.observe(0, step, "a", 1);
  }
  job.write();
  EXPECT_EQ(job.charts().agreement.first_step, 1);
  EXPECT_EQ(job.charts().agreement.last_step, 3);
}

TEST(ChartFold, HasNoDriftInAStepOfOneRank) {
  ChartedJob job(2);
  write_without_rank_1_in_step_3(job);
  for (const IndexUse use : {IndexUse::believed, IndexUse::ignored}) {
    const StepSeries series = job.charts(use).series;
    EXPECT_EQ(series.drift[1], 0);
    EXPECT_TRUE(std::isnan(series.drift[2]));
  }
}

TEST(ChartFold, ChangesNoVerdictAndIsNotStored) {
  ChartedJob job(2);
  for (std::int64_t step = 1; step <= 9; ++step) {
    for (int rank = 0; rank < 2; ++rank) job.observe(rank, step, "a", step < 5 ? 1 : float(rank));
  }
  job.write();
  const RunRecord plain = job.judged(IndexUse::believed, false);
  RunRecord charted = job.judged();
  EXPECT_FALSE(plain.jobs[0].charts);
  EXPECT_TRUE(charted.jobs[0].charts);
  EXPECT_EQ(render_json(plain), render_json(charted));
  charted.jobs[0].charts.reset();
  EXPECT_EQ(plain.jobs[0].results, charted.jobs[0].results);
}

}  // namespace
}  // namespace lockstep
