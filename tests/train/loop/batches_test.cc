#include "harness/train/loop/batches.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/launch/launch.h"

namespace lockstep {
namespace {

TEST(MicroBatch, HasASeedOfItsOwnInTheLargestWorld) {
  std::set<std::uint64_t> seeds;
  std::size_t drawn = 0;
  for (const std::uint64_t base : {1'000U, 500'000U, 1'000'000U, 2'000'000U, 3'000'000U}) {
    for (int owner = 0; owner < kMostRanksOfCell; ++owner) {
      for (std::int64_t step = 1; step <= 100; ++step) {
        for (std::int64_t index = 0; index < 4; ++index, ++drawn) {
          seeds.insert(MicroBatch{owner, step, index}.seed(base));
        }
      }
    }
  }
  EXPECT_EQ(seeds.size(), drawn);
}

/// Published values depend on these seeds.
TEST(MicroBatch, HasTheSeedsOfSmallWorldsAsEver) {
  EXPECT_EQ((MicroBatch{0, 1, 0}.seed(1'000'000)), 1'000'100U);
  EXPECT_EQ((MicroBatch{9, 20, 3}.seed(1'000'000)), 1'002'093U);
}

}  // namespace
}  // namespace lockstep
