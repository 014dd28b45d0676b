#include "harness/validate/setting_law.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Of factors at 1, 2, 4 and 8 shards.
std::string law(const std::function<double(double)>& factor, double error = 1e-6) {
  std::map<double, MeasuredFactor> by_value;
  for (const double shards : {1.0, 2.0, 4.0, 8.0}) by_value[shards] = {factor(shards), error};
  return law_of("shards", by_value);
}

TEST(SettingLaw, IsTheSimplestThatFitsAllFactors) {
  EXPECT_EQ(law([](double n) { return n; }), "shards");
  EXPECT_EQ(law([](double n) { return 2 / n; }), "2/shards");
  EXPECT_EQ(law([](double n) { return 1 / (2 * n); }), "1/(2*shards)");
  EXPECT_EQ(law([](double n) { return n + 1; }), "shards + 1");
  EXPECT_EQ(law([](double n) { return 2 * n - 1; }), "2*shards - 1");
  EXPECT_EQ(law([](double n) { return (n + 1) / 2; }), "1/2*shards + 1/2");
  EXPECT_EQ(law([](double n) { return 1 + 1 / n; }), "1/shards + 1");
  EXPECT_EQ(law([](double n) { return 1 / (n * n); }), "1/shards^2");
  EXPECT_EQ(law([](double n) { return 1 / std::sqrt(n); }), "1/sqrt(shards)");
  EXPECT_EQ(law([](double n) { return 2 / (n + 1); }), "2/(shards + 1)");
}

TEST(SettingLaw, IsNoneWhereFactorsDoNotFollowOne) {
  EXPECT_EQ(law([](double n) { return n == 8 ? 0.3 : 2 / n; }), "");
  EXPECT_EQ(law([](double n) { return std::exp(-n); }), "");
  EXPECT_EQ(law([](double) { return 2.0; }), "") << "it does not depend on the setting";
  EXPECT_EQ(law_of("shards", {{1, {2, 0}}, {2, {1, 0}}}), "") << "two values fit many laws";
  EXPECT_EQ(law([](double n) { return 1.02 * 2 / n; }), "");
  EXPECT_EQ(law([](double n) { return 1.02 * 2 / n; }, 0.01), "2/shards");
}

/// Gradients a and b that are so many times the right ones.
ComparedPair multiples(double a, double b) {
  ComparedPair pair;
  StepDifference& step = pair.steps.emplace_back();
  step.step = 1;
  for (const auto& [name, factor] : {std::pair("a", a), std::pair("b", b)}) {
    if (factor == 1) continue;
    TensorDifference& one = step.tensors.emplace_back();
    one.name = name;
    one.likeness = Likeness::different;
    one.ratio = factor;
    one.cosine = 1;
    one.rest = 1e-7;
  }
  return pair;
}

Comparison with(std::vector<ComparedPair> pairs) {
  Comparison comparison;
  comparison.pairs = std::move(pairs);
  return comparison;
}

TEST(LawsOfAMatrix, AreThoseOfEachSettingAndSide) {
  const std::vector<CommandCell> cells{
      {{"shards", "1"}}, {{"shards", "2"}}, {{"shards", "4"}}, {{"shards", "8"}}};
  std::vector<Comparison> fixes, alone;
  for (const double n : {1.0, 2.0, 4.0, 8.0}) {
    fixes.push_back(with({multiples(2 / n, 1), multiples(1, 1)}));
    alone.push_back(with({multiples(n + 1, n + 1)}));
  }
  EXPECT_THAT(laws_in_words(cells, fixes),
              ElementsAre("before: gradients of a are 2/shards times the right ones (1: 2, 2: 1, "
                          "4: 1/2, 8: 1/4)"));
  EXPECT_THAT(
      laws_in_words(cells, alone),
      ElementsAre("gradients of a, b are shards + 1 times the right ones (1: 2, 2: 3, 4: 5, "
                  "8: 9)"));
}

TEST(LawsOfAMatrix, AreThoseOfCellsThatDifferInOneSetting) {
  std::vector<CommandCell> cells;
  std::vector<Comparison> comparisons;
  for (const std::string layout : {"ddp", "fsdp"}) {
    for (const double n : {1.0, 2.0, 4.0}) {
      cells.push_back({{"ranks", std::to_string(static_cast<int>(n))}, {"layout", layout}});
      comparisons.push_back(with({multiples(layout == "ddp" ? n : 1, 1)}));
    }
  }
  EXPECT_THAT(laws_in_words(cells, comparisons),
              ElementsAre("layout=ddp: gradients of a are ranks times the right ones (1: 1, 2: 2, "
                          "4: 4)"));
}

TEST(LawsOfAMatrix, AreNotOfCellsThatAreUnknown) {
  const std::vector<CommandCell> cells{{{"n", "1"}}, {{"n", "2"}}, {{"n", "4"}}};
  std::vector<Comparison> comparisons;
  for (const double n : {1.0, 2.0, 4.0}) comparisons.push_back(with({multiples(2 / n, 1)}));
  EXPECT_EQ(laws_in_words(cells, comparisons).size(), 1U);
  std::vector<Comparison> without_one = comparisons;
  without_one[2].pairs.clear();
  EXPECT_THAT(laws_in_words(cells, without_one), IsEmpty());
  std::vector<Comparison> another = comparisons;
  another[2].pairs[0].steps[0].tensors[0].rest = 0.5;
  EXPECT_THAT(laws_in_words(cells, another), IsEmpty()) << "it is no multiple";
  EXPECT_THAT(laws_in_words({{{"n", "one"}}, {{"n", "two"}}, {{"n", "four"}}}, comparisons),
              IsEmpty());
}

}  // namespace
}  // namespace lockstep
