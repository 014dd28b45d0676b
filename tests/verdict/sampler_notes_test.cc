// How ranks divide the samples of a DistributedSampler.

#include "harness/verdict/sampler_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A job of two ranks that finished.
JobRecord sampled_job(std::vector<SamplerUse> uses) {
  JobRecord job;
  job.world_size = 2;
  job.exits = {{0, ExitKind::finished}, {1, ExitKind::finished}};
  job.samplers = std::move(uses);
  return job;
}

SamplerUse use(std::int64_t part, std::vector<int> ranks, std::int64_t seed = 0,
               std::int64_t repeats = 0) {
  return {"DistributedSampler", "train.py:31", 8, 2, part, seed, 3, repeats, std::move(ranks)};
}

TEST(SamplerNotes, AreNoneWhereEachPartIsReadInOneOrder) {
  EXPECT_THAT(sampler_notes(sampled_job({})), IsEmpty());
  EXPECT_THAT(sampler_notes(sampled_job({use(0, {0}), use(1, {1})})), IsEmpty());
  EXPECT_THAT(sampler_notes(sampled_job({use(0, {0, 1}), use(1, {2, 3})})), IsEmpty())
      << "with the same samples on ranks that divide a model";
  EXPECT_THAT(
      sampler_notes(sampled_job({use(0, {0}), use(1, {1}), use(0, {0}, 7), use(1, {1}, 7)})),
      IsEmpty())
      << "of two data sets";
  EXPECT_THAT(sampler_notes(sampled_job({use(0, {0}), use(1, {0})})), IsEmpty())
      << "of a rank that reads both";
}

TEST(SamplerNotes, TellOfEachPlaceWhoseOrderIsRepeated) {
  EXPECT_THAT(sampler_notes(sampled_job({use(0, {0}, 0, 2), use(1, {1}, 0, 2)})),
              ElementsAre("the training went through the samples of DistributedSampler "
                          "(train.py:31) 3 times, 2 times in the order of the time before: its "
                          "`set_epoch(epoch)` before each pass gives another order"));
}

TEST(SamplerNotes, TellOfSeedsThatDiffer) {
  EXPECT_THAT(sampler_notes(sampled_job({use(0, {0}, 3), use(1, {1}, 4)})),
              ElementsAre("DistributedSampler (train.py:31) has seed 3 on rank 0, and seed 4 on "
                          "rank 1: their parts are those of different orders, so some samples are "
                          "in several parts, and some in none"));
}

TEST(SamplerNotes, TellOfPartsThatNoRankReads) {
  std::vector<SamplerUse> uses{use(1, {0, 1})};
  uses[0].parts = 4;
  EXPECT_THAT(sampler_notes(sampled_job(uses)),
              ElementsAre("DistributedSampler (train.py:31) divides the samples into 4 parts, and "
                          "no rank reads 3 of these, as part 0; ranks 0,1 read part 1"));
  JobRecord job = sampled_job({use(0, {0})});
  EXPECT_THAT(sampler_notes(job),
              ElementsAre("DistributedSampler (train.py:31) divides the samples into 2 parts, and "
                          "no rank reads part 1; rank 0 reads part 0"));
  job.exits[1].kind = ExitKind::signalled;
  EXPECT_THAT(sampler_notes(job), IsEmpty()) << "the other rank did not come to it";
  job.exits[1].kind = ExitKind::finished;
  job.elsewhere = {1};
  EXPECT_THAT(sampler_notes(job), IsEmpty()) << "it is on another machine";
}

}  // namespace
}  // namespace lockstep
