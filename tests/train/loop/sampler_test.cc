#include "harness/train/loop/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "reports/base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Indices = std::vector<std::int64_t>;

Indices in_order(std::int64_t size, int world, int rank, bool drop_last = false) {
  return DistributedSampler(size, world, rank, 0, /*shuffle=*/false, drop_last).indices();
}

Indices shuffled(std::uint64_t seed, std::int64_t epoch, int rank = 0) {
  DistributedSampler sampler(20, 2, rank, seed);
  sampler.set_epoch(epoch);
  return sampler.indices();
}

TEST(DistributedSampler, GivesEachRankEveryWorldSizethSample) {
  EXPECT_THAT(in_order(6, 2, 0), ElementsAre(0, 2, 4));
  EXPECT_THAT(in_order(6, 2, 1), ElementsAre(1, 3, 5));
}

TEST(DistributedSampler, WrapsAroundWhereTheSizeIsNoMultiple) {
  EXPECT_THAT(in_order(5, 3, 0), ElementsAre(0, 3));
  EXPECT_THAT(in_order(5, 3, 1), ElementsAre(1, 4));
  EXPECT_THAT(in_order(5, 3, 2), ElementsAre(2, 0));
}

TEST(DistributedSampler, WrapsAroundMoreThanOnce) {
  EXPECT_THAT(in_order(2, 5, 4), ElementsAre(0));
  EXPECT_THAT(in_order(1, 3, 2), ElementsAre(0));
}

TEST(DistributedSampler, LeavesTheTailOutWhereAsked) {
  EXPECT_THAT(in_order(5, 3, 2, /*drop_last=*/true), ElementsAre(2));
  EXPECT_THAT(in_order(2, 3, 0, /*drop_last=*/true), IsEmpty());
  EXPECT_THAT(in_order(6, 3, 2, /*drop_last=*/true), ElementsAre(2, 5));
}

TEST(DistributedSampler, HasNothingOfNothing) { EXPECT_THAT(in_order(0, 3, 1), IsEmpty()); }

TEST(DistributedSampler, SharesOnePermutationBetweenTheRanks) {
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    for (const std::int64_t index : shuffled(1, 0, rank)) seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 20);
  EXPECT_EQ(*seen.rbegin(), 19);
}

TEST(DistributedSampler, ShufflesByTheSumOfSeedAndEpoch) {
  EXPECT_NE(shuffled(3, 0), shuffled(3, 1));
  EXPECT_EQ(shuffled(3, 1), shuffled(4, 0));
}

TEST(DistributedSampler, RepeatsTheOrderWithoutSetEpoch) {
  const DistributedSampler sampler(20, 2, 0, 3);
  EXPECT_EQ(sampler.indices(), sampler.indices());
  EXPECT_EQ(sampler.indices(), shuffled(3, 0));
}

TEST(DistributedSampler, RefusesARankOutsideOfTheWorld) {
  EXPECT_THROW(DistributedSampler(5, 2, 2), Error);
  EXPECT_THROW(DistributedSampler(5, 2, -1), Error);
  EXPECT_THROW(DistributedSampler(5, 0, 0), Error);
}

}  // namespace
}  // namespace lockstep
