// Metrics that a trainer reduced over ranks.

#include "harness/job/wrong_metrics.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lockstep {
namespace {

/// Of ranks with these sums and weights.
std::map<int, RankFacts> facts_with(const std::string& operation, const std::vector<double>& values,
                                    const std::vector<double>& weights, double reported) {
  std::map<int, RankFacts> facts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    RankFacts& one = facts[static_cast<int>(i)];
    one.world_size = static_cast<int>(values.size());
    one.metrics = {{"accuracy", operation, values[i], weights[i], reported, 8}};
  }
  return facts;
}

/// As Lightning, which divides by the mean of 4 and 3 as a whole number.
TEST(WrongMetrics, AreThoseThatAreNotTheMeanOfTheRanks) {
  EXPECT_EQ(wrong_metrics_in(facts_with("mean", {4, 3}, {4, 3}, 3.5 / 3)),
            (std::vector<WrongMetric>{{"accuracy", "mean", 8, 3.5 / 3, 1}}));
  EXPECT_TRUE(wrong_metrics_in(facts_with("mean", {4, 3}, {4, 3}, 1.00001)).empty());
  EXPECT_TRUE(wrong_metrics_in(facts_with("mean", {0, 0}, {0, 0}, 7)).empty()) << "of nothing";
  EXPECT_TRUE(wrong_metrics_in({}).empty());
}

TEST(WrongMetrics, AreThoseOfOtherOperationsToo) {
  EXPECT_TRUE(wrong_metrics_in(facts_with("sum", {4, 3, -2}, {1, 1, 1}, 5)).empty());
  EXPECT_TRUE(wrong_metrics_in(facts_with("max", {4, 7, -2}, {1, 1, 1}, 7)).empty());
  EXPECT_TRUE(wrong_metrics_in(facts_with("min", {4, 7, -2}, {1, 1, 1}, -2)).empty());
  EXPECT_EQ(wrong_metrics_in(facts_with("max", {4, 7, -2}, {1, 1, 1}, 4)).size(), 1);
  EXPECT_EQ(wrong_metrics_in(facts_with("sum", {4, 7, -2}, {1, 1, 1}, 4)).size(), 1);
}

/// The ranks of another machine, or one that ended before the others.
TEST(WrongMetrics, AreUnknownWithoutAllRanks) {
  auto facts = facts_with("mean", {4, 3}, {4, 3}, 2);
  facts[0].world_size = 3;
  EXPECT_TRUE(wrong_metrics_in(facts).empty());
  facts = facts_with("mean", {4, 3}, {4, 3}, 2);
  facts[1].metrics.clear();
  EXPECT_TRUE(wrong_metrics_in(facts).empty());
}

TEST(WrongMetrics, AreToldOnceForEachName) {
  auto facts = facts_with("mean", {4, 3}, {4, 3}, 1);
  for (auto& [rank, one] : facts) {
    one.metrics.push_back({"accuracy", "mean", 4, 4, 2, 16});
    one.metrics.push_back({"accuracy", "mean", 4, 4, 3, 24});
  }
  EXPECT_EQ(wrong_metrics_in(facts), (std::vector<WrongMetric>{{"accuracy", "mean", 16, 2, 1}}));
}

}  // namespace
}  // namespace lockstep
