// Real jobs with models, and buffers of models, that they do not train.

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

}  // namespace
}  // namespace lockstep
