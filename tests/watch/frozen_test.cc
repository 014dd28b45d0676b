// Real jobs with models that they do not train.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(WatchCommand, SaysNothingOfModelsThatMayDifferOnRanks) {
  const Outcome outcome = watch("", forked_ranks("teacher_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 2 ranks"),
                    Not(HasSubstr("no optimizer"))));
}

TEST_F(WatchCommand, SaysThatATeacherAndAMeanOfTheWeightsDifferOnRanks) {
  const Outcome outcome = watch("", "env WRONG=1 " + forked_ranks("teacher_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(
      unwrapped(outcome.err),
      AllOf(HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 2 ranks"),
            HasSubstr("parameters of Teacher that no optimizer steps differ between ranks before "
                      "the first step: 2 of 2, first bias (ranks 0 and 1 differ)"),
            HasSubstr("parameters of Regressor that no optimizer steps were the same on all ranks "
                      "before the first step, and differ after the last one: 4 of 4, first "
                      "body.bias (ranks 0 and 1 differ)")));
}

}  // namespace
}  // namespace lockstep
