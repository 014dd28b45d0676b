#include "harness/plan/wanted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/plan/glob.h"
#include "reports/base/error.h"
#include "tests/plan/literal_scenario.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Scenario> kTwo{literal_scenario("first-class"), literal_scenario("second-class")};

std::vector<std::string> wanted_names(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const Wanted& wanted : wanted_of(kTwo, words)) {
    for (const std::string& variant : wanted.variants) {
      names.push_back(wanted.scenario->id + "/" + variant);
    }
  }
  return names;
}

std::string refusal_of_name(const std::string& word) {
  try {
    wanted_of(kTwo, {word});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(matches_glob("loss*", "loss-on"));
  EXPECT_FALSE(matches_glob("loss*", "a-loss"));
  EXPECT_TRUE(matches_glob("[ab]?", "bx"));
  EXPECT_FALSE(matches_glob("\\*", "*")) << "a backslash is one";
  EXPECT_TRUE(is_glob("a[b]"));
  EXPECT_FALSE(is_glob("a-b/c"));
}

TEST(Wanted, OfAPatternIsAllOfWhatItMeets) {
  EXPECT_THAT(wanted_names({"s*"}),
              ElementsAre("second-class/bug", "second-class/fix", "second-class/other",
                          "second-class/plain", "second-class/special"));
  EXPECT_THAT(wanted_names({"*/b*"}), ElementsAre("first-class/bug", "second-class/bug"));
  EXPECT_THAT(wanted_names({"first-class/*[gx]"}),
              ElementsAre("first-class/bug", "first-class/fix"));
  EXPECT_THAT(wanted_names({"f???"
                            "?-class/fix"}),
              ElementsAre("first-class/fix"));
}

TEST(Wanted, OfANameAndAPatternIsBoth) {
  EXPECT_THAT(wanted_names({"second-class/bug", "f*/fix"}),
              ElementsAre("first-class/fix", "second-class/bug"));
}

TEST(Wanted, OfAPatternThatMeetsNothingIsRefused) {
  EXPECT_EQ(refusal_of_name("third*"),
            "No scenario matches 'third*'. Known:\n  first-class, second-class.");
  EXPECT_EQ(refusal_of_name("second-clas?s*"),
            "No scenario matches 'second-clas?s*'. Did you mean "
            "'second-class'?");
  EXPECT_THAT(refusal_of_name("first*/zzz*"),
              HasSubstr("No variant of first* matches 'zzz*'. Known:\n  bug, fix"));
  EXPECT_THAT(refusal_of_name("*/"), HasSubstr("matches ''"));
  EXPECT_THAT(refusal_of_name("*/*/*"), HasSubstr("No variant of * matches '*/*'"));
}

}  // namespace
}  // namespace lockstep
