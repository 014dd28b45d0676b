#include <gtest/gtest.h>

#include "reports/record/run_record.h"

namespace lockstep {
namespace {

/// A job that is in lockstep.
JobRecord job_in_lockstep() {
  JobRecord job;
  job.world_size = 2;
  job.exits.resize(2);
  job.symptom = {SymptomKind::right};
  job.results = {{agree_across_ranks(Kind::gradient, Phase::pre_step), Verdict::holds, "", 4}};
  return job;
}

/// A job of one rank, which has nothing to agree with.
JobRecord job_of_one_rank() {
  JobRecord job = job_in_lockstep();
  job.world_size = 1;
  job.exits.resize(1);
  job.coverage.parameters = 21;
  job.coverage.ranks = 1;
  job.symptom = {};
  job.results = {{agree_across_ranks(Kind::gradient, Phase::pre_step)},
                 {ranks_finish(), Verdict::holds}};
  return job;
}

TEST(Recording, IsAJobOfOneRankOrOfDeclaredShards) {
  EXPECT_TRUE(is_recording(job_of_one_rank()));
  EXPECT_EQ(status_of(job_of_one_rank()), ExitStatus::as_expected);
  JobRecord sharded = job_of_one_rank();
  sharded.world_size = sharded.coverage.ranks = 2;
  EXPECT_FALSE(is_recording(sharded)) << "names without a partner";
  EXPECT_EQ(status_of(sharded), ExitStatus::not_applicable);
  sharded.coverage.declared = 21;
  EXPECT_TRUE(is_recording(sharded));
  sharded.world_size = 3;
  EXPECT_FALSE(is_recording(sharded)) << "a rank was not seen";
}

TEST(Recording, HasNothingElseWrong) {
  JobRecord job = job_of_one_rank();
  job.results.push_back({stay_finite(Kind::parameter, Phase::post_step), Verdict::undecided});
  EXPECT_FALSE(is_recording(job));
  job = job_of_one_rank();
  job.exits[0].kind = ExitKind::raised;
  EXPECT_FALSE(is_recording(job));
  job = job_of_one_rank();
  job.faults = {"rank-0.csv was changed"};
  EXPECT_FALSE(is_recording(job));
}

}  // namespace
}  // namespace lockstep
