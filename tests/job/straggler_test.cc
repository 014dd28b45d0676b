// The rank that others wait for, by the times of calls that a test makes up.

#include "harness/job/straggler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>

namespace lockstep {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

/// Steps from 2 on with two collectives each, 10 ms apart. `late`: milliseconds by which a rank
/// calls the first of a step later.
std::map<int, RankFacts> ranks_of(int world_size, int steps,
                                  const std::function<std::int64_t(int, int)>& late) {
  std::map<int, RankFacts> facts;
  for (int rank = 0; rank < world_size; ++rank) {
    RankFacts& one = facts[rank];
    one.world_size = world_size;
    one.clock = "a";
    for (int step = 2; step < 2 + steps; ++step) {
      const std::int64_t begin = step * 100 * kMillisecond;
      one.arrivals.push_back({step, 0, 2 * step, begin + late(rank, step) * kMillisecond});
      one.arrivals.push_back({step, 0, 2 * step + 1, begin + 60 * kMillisecond});
    }
  }
  return facts;
}

std::int64_t rank_2_is_late(int rank, int /*step*/) { return rank == 2 ? 40 : rank; }

TEST(Straggler, IsTheRankThatOthersWaitForInMostSteps) {
  const auto found = straggler_in(ranks_of(4, 20, rank_2_is_late));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->steps, 20);
  EXPECT_EQ(found->late, 20);
  EXPECT_NEAR(found->waited_s, 20 * 0.037, 1e-9) << "until rank 3 alone would have been late";
  EXPECT_NEAR(found->duration_s, 19 * 0.1, 1e-9);
}

TEST(Straggler, IsNoneOfFewStepsOrShortWaits) {
  EXPECT_FALSE(straggler_in(ranks_of(4, 19, rank_2_is_late)));
  EXPECT_FALSE(straggler_in(ranks_of(
      4, 30, [](int rank, int) -> std::int64_t { return rank == 2 ? 15 : 0; })));  // of 100 ms
}

TEST(Straggler, IsNoneWhereRanksAreLateByTurns) {
  EXPECT_FALSE(straggler_in(ranks_of(
      2, 40, [](int rank, int step) -> std::int64_t { return step % 2 == rank ? 50 : 0; })));
  EXPECT_FALSE(straggler_in(ranks_of(4, 40, [](int rank, int) -> std::int64_t {
    return rank > 1 ? 40 : 0;  // nobody waits for one alone
  })));
}

/// As on a machine that has too much to do.
TEST(Straggler, IsNoneThatIsLateByChance) {
  EXPECT_FALSE(straggler_in(ranks_of(
      2, 60, [](int rank, int step) -> std::int64_t { return rank == 1 ? (step % 4) * 20 : 5; })));
}

/// Such as one that saves the training.
TEST(Straggler, IsNoneThatIsLateInFewSteps) {
  EXPECT_FALSE(straggler_in(ranks_of(
      2, 40, [](int rank, int step) -> std::int64_t { return rank == 0 && step < 30 ? 50 : 0; })));
}

TEST(Straggler, IsUnknownOfSeveralMachinesAndOfOtherCalls) {
  auto facts = ranks_of(4, 20, rank_2_is_late);
  facts[3].clock = "b";
  EXPECT_FALSE(straggler_in(facts));
  facts = ranks_of(4, 20, rank_2_is_late);
  facts.erase(3);
  EXPECT_FALSE(straggler_in(facts));
  facts = ranks_of(4, 20, rank_2_is_late);
  for (auto& [rank, one] : facts) one.clock.clear();
  EXPECT_FALSE(straggler_in(facts));
  facts = ranks_of(4, 20, rank_2_is_late);
  for (Arrival& arrival : facts[1].arrivals) arrival.number += 1000;
  EXPECT_FALSE(straggler_in(facts));
  EXPECT_FALSE(straggler_in({}));
}

}  // namespace
}  // namespace lockstep
