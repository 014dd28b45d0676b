#include "harness/listing/scenario_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/base/error.h"
#include "tests/listing/literal_catalogue.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<Scenario> kListed = literal_catalogue();

std::vector<std::string> ids_for(const std::vector<std::string>& words) {
  std::vector<std::string> ids;
  for (const Scenario* scenario : filter_scenarios(kListed, words)) ids.push_back(scenario->id);
  return ids;
}

std::string refusal_of_filter(const std::string& word) {
  try {
    filter_scenarios(kListed, {word});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    return error.what();
  }
  return "accepted";
}

TEST(ScenarioFilter, WithoutWordsSelectsAll) {
  EXPECT_THAT(ids_for({}), ElementsAre("loss-outside", "hook-runs-twice", "batches-uneven"));
}

TEST(ScenarioFilter, SelectsAClass) {
  EXPECT_THAT(ids_for({"hooks"}), ElementsAre("loss-outside", "hook-runs-twice"));
  EXPECT_THAT(ids_for({"coll*"}), ElementsAre("batches-uneven"));
}

TEST(ScenarioFilter, SelectsByPatternOfTheWholeId) {
  EXPECT_THAT(ids_for({"*-runs-*"}), ElementsAre("hook-runs-twice"));
  EXPECT_THAT(ids_for({"loss-outsid?"}), ElementsAre("loss-outside"));
  EXPECT_THAT(refusal_of_filter("los[xyz]*"),
              HasSubstr("No scenario or class matches 'los[xyz]*'."));
}

TEST(ScenarioFilter, FindsAWordOfAnIdOrASentence) {
  EXPECT_THAT(ids_for({"uneven"}), ElementsAre("batches-uneven"));
  EXPECT_THAT(ids_for({"hang"}), ElementsAre("batches-uneven")) << "HANG";
  EXPECT_THAT(ids_for({"Wrapper"}), ElementsAre("loss-outside"));
}

TEST(ScenarioFilter, OfSeveralWordsSelectsWhatOneMatchesInTheOrderOfTheRegistry) {
  EXPECT_THAT(ids_for({"hang", "loss-outside", "loss*"}),
              ElementsAre("loss-outside", "batches-uneven"));
}

TEST(ScenarioFilter, ThatMatchesNothingOffersTheNearestIdOrClass) {
  EXPECT_EQ(refusal_of_filter("los-outside"),
            "No scenario or class matches 'los-outside'. Did you mean 'loss-outside'?");
  EXPECT_EQ(refusal_of_filter("collectivs"),
            "No scenario or class matches 'collectivs'. Did you mean 'collectives'?");
  EXPECT_EQ(refusal_of_filter("zzz"),
            "No scenario or class matches 'zzz'. Known:\n  loss-outside, hook-runs-twice, "
            "batches-uneven, hooks, collectives.");
  EXPECT_THAT(refusal_of_filter(""), HasSubstr("matches ''."));
  EXPECT_THAT(refusal_of_filter("\x1b[2J"), AllOf(HasSubstr("\\x1b")));
}

}  // namespace
}  // namespace lockstep
