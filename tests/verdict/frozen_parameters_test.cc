// Parameters that no rank trains, and of which ranks have others.

#include "harness/verdict/frozen_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobRecord frozen_job(std::vector<FrozenParameter> frozen) {
  JobRecord job;
  job.world_size = 2;
  job.coverage.parameters = job.coverage.compared = 4;
  job.frozen = std::move(frozen);
  return job;
}

TEST(FrozenNotes, AreNoneWhereRanksHaveTheSame) {
  EXPECT_THAT(frozen_notes(frozen_job({})), IsEmpty());
  EXPECT_THAT(frozen_notes(frozen_job({{"Teacher", "weight", "a", "b", {0, 1}}})), IsEmpty());
  EXPECT_THAT(frozen_notes(frozen_job({{"Teacher", "weight", "a", "a", {0}}})), IsEmpty())
      << "on one rank alone";
  EXPECT_THAT(frozen_notes(frozen_job(
                  {{"Teacher", "weight", "a", "a", {0, 1}}, {"Teacher", "weight", "c", "c", {0}}})),
              IsEmpty())
      << "rank 0 has another one of the class";
  EXPECT_THAT(frozen_notes(frozen_job({{"Teacher", "weight", "a", "a", {0, 1}},
                                       {"Teacher", "weight", "c", "c", {0, 1}}})),
              IsEmpty());
  EXPECT_THAT(frozen_notes(frozen_job(
                  {{"Mean", "weight", "a", "b", {0}}, {"Mean", "weight", "a", "a", {1}}})),
              IsEmpty())
      << "rank 0 alone has a mean";
  EXPECT_THAT(frozen_notes(frozen_job(
                  {{"Mean", "weight", "a", "b", {0}}, {"Mean", "weight", "a", "", {1}}})),
              IsEmpty())
      << "it is gone on rank 1";
}

TEST(FrozenNotes, TellOfThoseThatBeginApart) {
  const std::vector<FrozenParameter> frozen{{"Teacher", "bias", "a", "a", {0, 1, 2}},
                                            {"Teacher", "weight", "b", "b", {0, 1}},
                                            {"Teacher", "weight", "c", "c", {2}}};
  EXPECT_THAT(
      frozen_notes(frozen_job(frozen)),
      ElementsAre("parameters of Teacher that no optimizer steps differ between ranks before "
                  "the first step: 1 of 2, first weight (ranks 0 and 2 differ). Those of a "
                  "teacher or reference model should be the same"));
  JobRecord divided = frozen_job(frozen);
  divided.coverage.parameters = 5;
  EXPECT_THAT(frozen_notes(divided), IsEmpty()) << "ranks may divide the teacher, too";
}

TEST(FrozenNotes, TellOfThoseThatSeveralRanksChangeDifferently) {
  const std::vector<FrozenParameter> frozen{{"", "encoder.weight", "a", "b", {0}},
                                            {"", "encoder.weight", "a", "c", {1}}};
  EXPECT_THAT(
      frozen_notes(frozen_job(frozen)),
      ElementsAre("parameters that no optimizer steps were the same on all ranks before the "
                  "first step, and differ after the last one: 1 of 1, first "
                  "encoder.weight (ranks 0 and 1 differ); several ranks have changed them"));
  JobRecord apart = frozen_job(frozen);
  apart.results.emplace_back();
  apart.results[0].verdict = Verdict::violated;
  EXPECT_THAT(frozen_notes(apart), IsEmpty()) << "a mean of weights that differ";
}

TEST(FrozenNotes, TellOfBuffersThatDifferAtTheEnd) {
  const std::vector<FrozenParameter> frozen{{"", "mask", "", "a", {0}, true},
                                            {"", "mask", "", "b", {1}, true},
                                            {"", "scale", "", "c", {0, 1}, true}};
  EXPECT_THAT(frozen_notes(frozen_job(frozen)),
              ElementsAre("buffers that are saved with the model differ between ranks after the "
                          "last step: 1 of 2, first mask (ranks 0 and 1 differ); `--also buffers` "
                          "tells from which step on"));
  EXPECT_THAT(frozen_notes(frozen_job({frozen[2]})), IsEmpty());
  EXPECT_THAT(frozen_notes(frozen_job({frozen[0]})), IsEmpty()) << "on one rank alone";
  JobRecord joined = frozen_job(frozen);
  joined.joined = {{}};
  EXPECT_THAT(frozen_notes(joined), IsEmpty()) << "ranks trained other numbers of steps";
  JobRecord apart = frozen_job(frozen);
  apart.results.emplace_back();
  apart.results[0].verdict = Verdict::violated;
  EXPECT_THAT(frozen_notes(apart), IsEmpty()) << "they differ anyway";
}

/// They are observed before the first step as those that are trained.
TEST(FrozenNotes, SayNothingOfFrozenLayersThatBeginApart) {
  EXPECT_THAT(frozen_notes(frozen_job(
                  {{"", "base.weight", "a", "a", {0}}, {"", "base.weight", "b", "b", {1}}})),
              IsEmpty());
}

}  // namespace
}  // namespace lockstep
