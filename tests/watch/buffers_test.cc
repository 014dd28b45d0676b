// Which buffers ranks have to share, with `lockstep watch --also buffers` and without.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(WatchCommand, AcceptsBuffersThatEachRankMayKeep) {
  const Outcome own = watch("--also buffers", two_ranks("buffers_training"));
  EXPECT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(unwrapped(own.err),
              HasSubstr("note: buffers differ between ranks before the forward passes, 4 of 6: "));
  EXPECT_THAT(own.err, Not(HasSubstr("2.bias")));
}

TEST_F(WatchCommand, FindsABufferOfEachRanksOwnSamples) {
  const Outcome local = watch("--also buffers", "env LOCAL=1 " + two_ranks("buffers_training"));
  EXPECT_EQ(local.status, 1) << local.err;
  EXPECT_THAT(unwrapped(local.err),
              HasSubstr("FAILED: ranks differ from step 3 on: 2.bias (1 of 1 buffers)"));
}

TEST_F(WatchCommand, SaysNothingOfBuffersThatMayDifferOnRanks) {
  const Outcome outcome = watch("", forked_ranks("masked_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), AllOf(HasSubstr("in lockstep: 6 of 6 parameters compared"),
                                            Not(HasSubstr("buffers"))));
}

TEST_F(WatchCommand, SaysThatMasksDifferOnRanks) {
  const Outcome outcome = watch("", "env WRONG=1 " + forked_ranks("masked_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("in lockstep: 6 of 6 parameters compared"),
                    HasSubstr("buffers that are saved with the model differ between ranks after "
                              "the last step: 2 of 2, first 0.largest (ranks 0 and 1 differ); "
                              "`--also buffers` tells from which step on")));
}

TEST_F(WatchCommand, SaysOnceThatMasksDifferIfItObservesBuffers) {
  const Outcome outcome = watch("--also buffers", "env WRONG=1 " + forked_ranks("masked_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("FAILED"), HasSubstr("1.mask"), Not(HasSubstr("--also buffers"))));
}

/// The function that has it returns before the process ends.
TEST_F(WatchCommand, SaysThatABufferDiffersThoughItsModelIsGoneAtTheEnd) {
  const Outcome outcome = watch("", "env LOCAL=1 " + two_ranks("buffers_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), AllOf(HasSubstr("after the last step: 1 of 2, first 2.bias "),
                                            HasSubstr("in lockstep: 6 of 6 parameters")));
}

}  // namespace
}  // namespace lockstep
