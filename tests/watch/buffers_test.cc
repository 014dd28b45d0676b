// `lockstep watch --also buffers`: which buffers ranks have to share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

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

}  // namespace
}  // namespace lockstep
