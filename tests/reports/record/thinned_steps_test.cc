#include "reports/record/thinned_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace lockstep {
namespace {

/// Adds `count` steps, whose rows are their places. `state` and `value`: by place.
template <class State, class Value>
ThinnedSteps<std::int64_t> thinned(std::int64_t count, std::size_t most, State state, Value value) {
  ThinnedSteps<std::int64_t> steps(most);
  for (std::int64_t i = 0; i < count; ++i) steps.add(state(i), value(i), value(i), value(i), i);
  return steps;
}

std::int64_t same_state(std::int64_t) { return 0; }
double slope(std::int64_t place) { return double(place); }

TEST(ThinnedSteps, KeepsAllStepsUpToTheLimit) {
  EXPECT_EQ(thinned(100, 100, same_state, slope).take().size(), 100U);
  EXPECT_TRUE(thinned(0, 100, same_state, slope).take().empty());
  EXPECT_THAT(thinned(1, 100, same_state, slope).take(), testing::ElementsAre(0));
}

TEST(ThinnedSteps, HasALimit) {
  for (const std::int64_t count : {101, 199, 200, 201, 1000, 12345, 1000000}) {
    auto steps = thinned(count, 100, same_state, slope);
    EXPECT_EQ(steps.seen(), count);
    EXPECT_LE(steps.take().size(), 100U) << count;
  }
}

TEST(ThinnedSteps, KeepsTheFirstAndTheLast) {
  for (const std::int64_t count : {101, 1000, 99999}) {
    const auto rows = thinned(count, 100, same_state, [](auto) { return 1.0; }).take();
    EXPECT_EQ(rows.front(), 0);
    EXPECT_EQ(rows.back(), count - 1);
  }
}

/// One step of many, wherever it is.
TEST(ThinnedSteps, KeepsASingleOutlierOnEitherSide) {
  for (const std::int64_t at : {1, 4095, 4096, 99998}) {
    for (const double outlier : {-1.0, 9.0}) {
      const auto rows = thinned(100000, 200, same_state, [&](std::int64_t i) {
                          return i == at ? outlier : 1.0;
                        }).take();
      EXPECT_THAT(rows, testing::Contains(at)) << outlier;
    }
  }
}

TEST(ThinnedSteps, KeepsBothSidesOfEveryChange) {
  const auto rows = thinned(
                        100000, 200, [](std::int64_t i) { return i >= 70001 && i < 70003; }, slope)
                        .take();
  for (const std::int64_t place : {70000, 70001, 70002, 70003}) {
    EXPECT_THAT(rows, testing::Contains(place));
  }
}

TEST(ThinnedSteps, SaysThatItMergedChangesIfTheyAreTooMany) {
  auto steps = thinned(
      100000, 200, [](std::int64_t i) { return i % 2; }, slope);
  EXPECT_EQ(steps.merged_changes(), 99999);
  EXPECT_LE(steps.take().size(), 200U);
  EXPECT_EQ(thinned(
                100000, 200, [](std::int64_t i) { return i / 40000; }, slope)
                .merged_changes(),
            0);
}

/// Compares with the extremes of all steps, bucket by bucket.
TEST(ThinnedSteps, KeepsTheExtremesOfEachFinalBucket) {
  std::mt19937 random(7);
  std::vector<double> values;
  for (int i = 0; i < 50000; ++i) values.push_back(std::normal_distribution<>()(random));
  const auto rows = thinned(50000, 500, same_state, [&](std::int64_t i) {
                      return values[std::size_t(i)];
                    }).take();
  // The widest bucket that may result: 50000 steps, 500 of them kept, 2 extremes in each.
  constexpr std::size_t kWidth = 512;
  for (std::size_t begin = 0; begin < values.size(); begin += kWidth) {
    const std::size_t end = std::min(begin + kWidth, values.size());
    const auto first = values.begin() + std::ptrdiff_t(begin);
    const auto last = values.begin() + std::ptrdiff_t(end);
    EXPECT_THAT(rows, testing::Contains(std::min_element(first, last) - values.begin()));
    EXPECT_THAT(rows, testing::Contains(std::max_element(first, last) - values.begin()));
  }
}

TEST(ThinnedSteps, IgnoresValuesThatAreNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto rows = thinned(10000, 100, same_state, [&](std::int64_t i) {
                      return i == 5000 ? 7.0 : i % 3 == 0 ? nan : 1.0;
                    }).take();
  EXPECT_THAT(rows, testing::Contains(5000));
  EXPECT_LE(thinned(10000, 100, same_state, [&](std::int64_t) { return nan; }).take().size(), 100U);
}

TEST(ThinnedSteps, AscendAndOccurOnce) {
  const auto rows = thinned(
                        12345, 100, [](std::int64_t i) { return i / 1000; }, slope)
                        .take();
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_EQ(std::adjacent_find(rows.begin(), rows.end()), rows.end());
}

}  // namespace
}  // namespace lockstep
