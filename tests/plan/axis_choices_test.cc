#include "harness/plan/axis_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <utility>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

/// Axes "a", "b", ... with that many values each: "0", "1", ...
std::vector<AxisRange> axes_of(const std::vector<int>& shape) {
  std::vector<AxisRange> axes;
  for (const int count : shape) {
    AxisRange& axis = axes.emplace_back();
    axis.axis = std::string(1, static_cast<char>('a' + axes.size() - 1));
    for (int value = 0; value < count; ++value) axis.values.push_back(std::to_string(value));
  }
  return axes;
}

std::size_t product(const std::vector<int>& shape) {
  std::size_t all = 1;
  for (const int count : shape) all *= static_cast<std::size_t>(count);
  return all;
}

using Pairs = std::set<std::pair<std::string, std::string>>;

/// The pairs of values of two axes.
Pairs pairs_in(const std::vector<Choice>& choices, std::size_t a, std::size_t b) {
  Pairs pairs;
  for (const Choice& choice : choices) pairs.emplace(choice.at(a).value, choice.at(b).value);
  return pairs;
}

std::set<std::string> words_of(const std::vector<Choice>& choices) {
  std::set<std::string> words;
  for (const Choice& choice : choices) {
    std::string text;
    for (const AxisValue& chosen : choice) text += chosen.axis + chosen.value;
    words.insert(text);
  }
  return words;
}

class Choices : public testing::TestWithParam<std::vector<int>> {
 protected:
  std::vector<AxisRange> axes_ = axes_of(GetParam());
};

TEST_P(Choices, OfAllAreEveryCombinationOnce) {
  const std::vector<Choice> all = all_choices(axes_);
  EXPECT_THAT(all, SizeIs(product(GetParam())));
  EXPECT_THAT(words_of(all), SizeIs(product(GetParam())));
}

TEST_P(Choices, OfPairsHoldEveryPairOfValuesOfEveryTwoAxes) {
  const std::vector<Choice> choices = pairwise_choices(axes_);
  const auto& shape = GetParam();
  for (std::size_t a = 0; a < shape.size(); ++a) {
    for (std::size_t b = a + 1; b < shape.size(); ++b) {
      EXPECT_THAT(pairs_in(choices, a, b), SizeIs(shape[a] * shape[b])) << a << " and " << b;
    }
  }
}

TEST_P(Choices, OfPairsAreOneValueOfEveryAxisInTheOrderOfTheAxes) {
  const std::set<std::string> all = words_of(all_choices(axes_));
  const std::vector<Choice> choices = pairwise_choices(axes_);
  for (const std::string& word : words_of(choices)) EXPECT_TRUE(all.contains(word)) << word;
  EXPECT_THAT(words_of(choices), SizeIs(choices.size())) << "no choice twice";
}

TEST_P(Choices, OfPairsAreTheSameEveryTime) {
  EXPECT_EQ(pairwise_choices(axes_), pairwise_choices(axes_of(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Choices,
                         testing::Values(std::vector<int>{}, std::vector<int>{3},
                                         std::vector<int>{1}, std::vector<int>{2, 3},
                                         std::vector<int>{1, 1, 1}, std::vector<int>{1, 4},
                                         std::vector<int>{2, 2, 2}, std::vector<int>{3, 1, 2},
                                         std::vector<int>{1, 3, 3, 1}, std::vector<int>{5, 2, 3},
                                         std::vector<int>{2, 2, 2, 2, 2, 2, 2, 2},
                                         std::vector<int>{4, 4, 4, 4, 4, 4},
                                         std::vector<int>{2, 7, 2, 5, 1, 3}),
                         [](const auto& parameter) {
                           std::string name = "of";
                           for (const int count : parameter.param) name += std::to_string(count);
                           return name;
                         });

TEST_P(Choices, AreCountedWithoutBeingMade) {
  EXPECT_EQ(count_choices(axes_), product(GetParam()));
}

TEST_P(Choices, OfPairsAreTheSameWhereEverythingCanBeRun) {
  const PairwiseChoices found =
      pairwise_choices(axes_, [](const Choice&) { return std::string(); });
  EXPECT_EQ(found.choices, pairwise_choices(axes_));
  EXPECT_EQ(found.uncovered, 0U);
}

TEST(CountChoices, StopsAtTheLargestNumber) {
  EXPECT_EQ(count_choices(axes_of(std::vector<int>(20, 60))),
            std::numeric_limits<std::size_t>::max());
}

/// Pairs of values in choices that `obstacle` accepts.
std::set<std::string> good_pairs(const std::vector<Choice>& choices, const Obstacle& obstacle) {
  std::set<std::string> pairs;
  for (const Choice& choice : choices) {
    if (!obstacle(choice).empty()) continue;
    for (std::size_t a = 0; a < choice.size(); ++a) {
      for (std::size_t b = a + 1; b < choice.size(); ++b) {
        pairs.insert(choice[a].axis + choice[a].value + choice[b].axis + choice[b].value);
      }
    }
  }
  return pairs;
}

struct Rule {
  const char* name;
  Obstacle obstacle;
  std::size_t reasons;

  friend std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name; }
};

class ChoicesUnderARule : public testing::TestWithParam<Rule> {};

/// Compared with all combinations, which show the pairs that can be run at all.
TEST_P(ChoicesUnderARule, CoverEveryPairThatCanBeRun) {
  const auto axes = axes_of({3, 2, 4, 3, 2, 3});
  const Obstacle& obstacle = GetParam().obstacle;
  const PairwiseChoices found = pairwise_choices(axes, obstacle);
  const auto possible = good_pairs(all_choices(axes), obstacle);
  EXPECT_EQ(good_pairs(found.choices, obstacle), possible);
  if (!possible.empty()) {
    EXPECT_EQ(found.uncovered, 119 - possible.size());
  }
  EXPECT_LT(found.choices.size(), 40U);
  EXPECT_EQ(pairwise_choices(axes, obstacle).choices, found.choices);
}

TEST_P(ChoicesUnderARule, HoldOneThatCannotBeRunForEachReason) {
  const PairwiseChoices found = pairwise_choices(axes_of({3, 2, 4, 3, 2, 3}), GetParam().obstacle);
  std::multiset<std::string> reasons;
  for (const Choice& choice : found.choices) {
    const std::string reason = GetParam().obstacle(choice);
    if (!reason.empty()) reasons.insert(reason);
  }
  EXPECT_THAT(reasons, SizeIs(GetParam().reasons));
  EXPECT_THAT(std::set<std::string>(reasons.begin(), reasons.end()), SizeIs(GetParam().reasons));
}

std::string value_of(const Choice& choice, std::size_t axis) { return choice.at(axis).value; }

INSTANTIATE_TEST_SUITE_P(
    Rules, ChoicesUnderARule,
    testing::Values(
        Rule{"Anything", [](const Choice&) { return ""; }, 0},
        Rule{"Nothing", [](const Choice&) { return "not here"; }, 1},
        Rule{"AValueNever",
             [](const Choice& c) { return value_of(c, 2) == "3" ? "needs three" : ""; }, 1},
        Rule{"TheFirstValueNever",
             [](const Choice& c) { return value_of(c, 0) == "0" ? "needs more" : ""; }, 1},
        Rule{"NotTogether",
             [](const Choice& c) {
               return value_of(c, 0) == "0" && value_of(c, 3) == "0" ? "not together" : "";
             },
             1},
        Rule{"OnlyTogether",
             [](const Choice& c) {
               return (value_of(c, 1) == "1") == (value_of(c, 4) == "1") ? "" : "only together";
             },
             1},
        Rule{"TwoRules",
             [](const Choice& c) {
               if (value_of(c, 5) == "2" && value_of(c, 1) != "1") return "the one";
               return value_of(c, 0) > value_of(c, 2) ? "the other" : "";
             },
             2},
        Rule{"OfThreeAxes",
             [](const Choice& c) {
               return value_of(c, 0) == value_of(c, 2) && value_of(c, 2) == value_of(c, 3) ? "alike"
                                                                                           : "";
             },
             1}),
    [](const auto& rule) { return rule.param.name; });

TEST(PairwiseChoices, OfTwelveAxesAreMadeInNoTime) {
  const auto axes = axes_of({5, 4, 3, 2, 5, 4, 3, 2, 5, 4, 3, 2});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_LE(pairwise_choices(axes).size(), 60U);
  const PairwiseChoices found = pairwise_choices(axes, [](const Choice& c) {
    if (value_of(c, 0) == "4" && value_of(c, 4) != "4") return "one";
    return value_of(c, 1) == "0" && value_of(c, 5) == "0" && value_of(c, 8) != "1" ? "two" : "";
  });
  EXPECT_LE(found.choices.size(), 80U);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(AllChoices, LetTheLastAxisRunFastest) {
  const std::vector<AxisRange> axes{{"tiles", {"1", "2"}}, {"k", {"x", "y", "z"}}};
  using C = Choice;
  EXPECT_THAT(all_choices(axes),
              ElementsAre(C{{"tiles", "1"}, {"k", "x"}}, C{{"tiles", "1"}, {"k", "y"}},
                          C{{"tiles", "1"}, {"k", "z"}}, C{{"tiles", "2"}, {"k", "x"}},
                          C{{"tiles", "2"}, {"k", "y"}}, C{{"tiles", "2"}, {"k", "z"}}));
}

TEST(AllChoices, OfNoAxisAreOneEmptyChoice) {
  EXPECT_THAT(all_choices({}), ElementsAre(IsEmpty()));
  EXPECT_THAT(pairwise_choices({}), ElementsAre(IsEmpty()));
}

TEST(PairwiseChoices, OfOneOrTwoAxesAreEveryCombination) {
  for (const std::vector<int>& shape : {std::vector<int>{4}, {1}, {3, 4}, {1, 5}}) {
    EXPECT_EQ(words_of(pairwise_choices(axes_of(shape))), words_of(all_choices(axes_of(shape))));
  }
}

TEST(PairwiseChoices, AreFarFewerThanTheProduct) {
  EXPECT_LT(pairwise_choices(axes_of({2, 2, 2})).size(), 8U);
  EXPECT_LE(pairwise_choices(axes_of({3, 3, 3, 3})).size(), 15U);        // of 81; the minimum is 9
  EXPECT_LE(pairwise_choices(axes_of({4, 4, 4, 4, 4, 4})).size(), 40U);  // of 4096; at least 16
  EXPECT_LE(pairwise_choices(axes_of({2, 2, 2, 2, 2, 2, 2, 2, 2, 2})).size(), 14U);  // of 1024
}

TEST(PairwiseChoices, OfAxesWithOneValueBesideTwoAreThoseTwo) {
  EXPECT_THAT(pairwise_choices(axes_of({1, 3, 1, 2})), SizeIs(6));
}

}  // namespace
}  // namespace lockstep
