// Real jobs whose samples torch's DistributedSampler divides.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/watch/marked_place.h"
#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(WatchCommand, SaysNothingOfSamplesThatAreDividedAsTheyShouldBe) {
  const Outcome outcome = watch("", forked_ranks("sampled_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("in lockstep"), Not(HasSubstr("DistributedSampler"))));
}

TEST_F(WatchCommand, SaysThatSamplesAreNotDividedAsTheyShouldBe) {
  const Outcome outcome = watch("", "env WRONG=1 " + forked_ranks("sampled_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string sampler =
      fmt::format("DistributedSampler ({})", marked_place("sampled_training.py", "# this line"));
  EXPECT_THAT(
      unwrapped(outcome.err),
      AllOf(HasSubstr("in lockstep"),
            HasSubstr("the training went through the samples of " + sampler +
                      " 2 times, once in the order of the time before: its `set_epoch(epoch)`"),
            HasSubstr(sampler + " has seed 0 on rank 0, and seed 1 on rank 1"),
            HasSubstr(sampler + " divides the samples into 2 parts, and no rank reads part 1; "
                                "ranks 0,1 read part 0"),
            Not(HasSubstr("has seed -1"))));
}

}  // namespace
}  // namespace lockstep
