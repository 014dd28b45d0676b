// `lockstep watch --data`: which ranks saw the same samples.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(WatchCommand, JudgesRanksThatDifferWithTheirSamples) {
  const Outcome outcome =
      watch("--data", "env FAULT=1 STEPS=6 PAUSE=0.3 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const std::string files =
      run_shell("cat " + (out() / "job/rank-0.step-4.safetensors").string()).out;
  EXPECT_THAT(files, HasSubstr("0.weight"));
  EXPECT_THAT(files, Not(HasSubstr("/data/"))) << "samples are never stored";
}

/// By how the module is run.
class SameSamples : public WatchCommand, public testing::WithParamInterface<const char*> {};

TEST_P(SameSamples, AreSeen) {
  const Outcome same = watch(
      "--data", fmt::format("env SAME_DATA=1 {}=1 {}", GetParam(), two_ranks("one_training")));
  const bool is_known = std::string_view(GetParam()) != "COMPILE";  // its hooks are left out
  EXPECT_EQ(same.status, is_known ? 1 : 0) << same.err;
  EXPECT_THAT(unwrapped(same.err),
              HasSubstr(is_known ? "FAILED: all 2 ranks saw the same samples in each of 4 steps"
                                 : "ranks 0,1 saw the same samples in each of the first 4 steps"));
  EXPECT_THAT(same.err, Not(HasSubstr("forward hook")));  // a warning of torch
}

INSTANTIATE_TEST_SUITE_P(Watched, SameSamples, testing::Values("PLAIN", "COUNT", "SHARDED"));
INSTANTIATE_TEST_SUITE_P(Soak, SameSamples, testing::Values("CHECKPOINT", "COMPILE"));

TEST_F(WatchCommand, DoesNotSeeTheSameSamplesInOthers) {
  const Outcome others = watch("--data", two_ranks("one_training"));
  EXPECT_EQ(others.status, 0) << others.err;
  EXPECT_THAT(others.err, Not(HasSubstr("same samples")));
}

}  // namespace
}  // namespace lockstep
