// Gradients that are reduced by hand, by collectives that differ between ranks: by_hand.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/watch/marked_place.h"
#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class ByHand : public WatchCommand {
 protected:
  Outcome watched(const std::string& name, double pause_s = 0) const {
    return watch("", fmt::format("env CASE={} PAUSE={} {}", name, pause_s, two_ranks("by_hand")));
  }

  static std::string place(const std::string& mark) { return marked_place("by_hand.py", mark); }
};

/// A call for each gradient that there is: those of one size are met by others, without an error.
TEST_F(ByHand, SkipsGradientsThatOneRankLacks) {
  const Outcome outcome = watched("fewer", 0.3);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      unwrapped(outcome.err),
      HasSubstr(fmt::format("Cause: rank 0 called 5 all-reduces at {}, one for each gradient "
                            "that it has, rank 1 only 4: it has none of experts.1.weight",
                            place("# the line that a cause names"))));
}

TEST_F(ByHand, SkipsThemFromALaterStepOn) {
  const Outcome outcome = watched("late", 0.3);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("rank 1 only 4: it has none of experts.1.weight"));
}

TEST_F(ByHand, SkipsAsManyOnEachRank) {
  const Outcome outcome = watched("same-number", 0.3);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr(fmt::format(
                  "FAILED: ranks differ from step 1 on: experts.0.weight (2 of 5 gradients). "
                  "Cause: each rank called 4 all-reduces at {}, one for each gradient that "
                  "it has, but rank 0 has none of experts.1.weight, rank 1 has none of "
                  "experts.0.weight",
                  place("# the line that a cause names"))));
}

TEST_F(ByHand, HasACallThatOneRankMakesAlone) {
  const Outcome outcome = watched("branch", 0.3);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      unwrapped(outcome.err),
      ContainsRegex(fmt::format("Cause: rank 0 called 1 all-reduce at {} in step [48], rank 1 none",
                                place("# of one rank alone"))));
}

/// A job that ended before anybody asked for the lines.
TEST_F(ByHand, IsToldWithoutItsLine) {
  const Outcome outcome = watched("same-number");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("Cause: each rank called 4 all-reduces"));
}

/// By case, and the line that has this text. Gloo ends the process there.
class AbortByHand : public ByHand,
                    public testing::WithParamInterface<std::pair<const char*, const char*>> {};

TEST_P(AbortByHand, IsToldByItsLine) {
  const auto& [name, mark] = GetParam();
  const Outcome outcome = watched(name, 0.3);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr(place(mark)));
}

INSTANTIATE_TEST_SUITE_P(OtherSizes, AbortByHand,
                         testing::Values(std::pair{"sizes", "# the line that a cause names"},
                                         std::pair{"flat", "dist.all_reduce(flat)"}));

class RightByHand : public ByHand, public testing::WithParamInterface<const char*> {};

TEST_P(RightByHand, MayHaveOtherCallsOnEachRank) {
  const Outcome outcome = watched(GetParam());
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("Cause")));
}

INSTANTIATE_TEST_SUITE_P(Healthy, RightByHand,
                         testing::Values("right", "subgroup", "gathered", "peers", "metrics",
                                         "flat-right"));

/// A difference that calls of one rank alone do not explain.
TEST_F(ByHand, IsNoCauseBesideAnotherFault) {
  const Outcome outcome = watched("subgroup-apart", 0.3);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(unwrapped(outcome.err), Not(HasSubstr("called 1 all-reduce")));
}

}  // namespace
}  // namespace lockstep
