// Ranks of real jobs that train nothing, and ranks that the others wait for.

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

const std::string kRollouts = forked_ranks("rollout_training", 3);

TEST_F(WatchCommand, JudgesTheOthersWhereARankOnlyHasACopy) {
  const Outcome outcome = watch("", kRollouts);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 3 ranks"),
                    HasSubstr("rank 2 has no optimizer, and is not compared: its 4 parameters are "
                              "those of the others after step 3")));
}

TEST_F(WatchCommand, SaysThatACopyIsOld) {
  const Outcome outcome = watch("", "env STALE=1 " + kRollouts);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("1 of its 4 parameters (0.weight) is that of the others after step 1, not "
                        "after step 3"));
}

/// A rank that was to train may be one that has lost its way.
TEST_F(WatchCommand, IsUndecidedWhereARankHasAnOptimizerThatNeverSteps) {
  const Outcome outcome = watch("", "env OPTIMIZER=1 " + kRollouts);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), AllOf(HasSubstr("rank 2 observed none of the parameters"),
                                            Not(HasSubstr("has no optimizer"))));
}

TEST_F(WatchCommand, IsUndecidedWhereOneRankTrainsAlone) {
  const Outcome outcome = watch("", "env ALONE=1 " + kRollouts);
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("ranks 1,2 observed none of the parameters"),
                    HasSubstr("ranks 1,2 have no optimizer: their 4 parameters are those of the "
                              "others after step 3")));
}

TEST_F(WatchCommand, NamesTheRankThatOthersWaitFor) {
  const Outcome outcome = watch("", "env LATE=0.05 STEPS=26 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("in lockstep"), HasSubstr("the others waited for rank 1: 1."),
                    HasSubstr(" of 25 steps (calls of collectives")));
}

}  // namespace
}  // namespace lockstep
