#include "harness/listing/scenario_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/listing/catalogue_json.h"
#include "harness/listing/catalogue_markdown.h"
#include "harness/listing/scenario_sheet.h"
#include "harness/listing/scenario_words.h"
#include "harness/plan/wanted.h"
#include "tests/golden.h"
#include "tests/listing/literal_catalogue.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const std::vector<Scenario> kCatalogue = literal_catalogue();

ScenarioList whole_list() { return filter_scenarios(kCatalogue, {}); }

TEST(ListAsTable, InAPipeIsNeverCut) {
  EXPECT_EQ(
      list_as_table(whole_list(), std::nullopt),
      "scenario         class        ranks  devices   fault\n"
      "loss-outside     hooks        2,4    cpu       The loss is computed beside the wrapper, and "
      "nobody sees it.\n"
      "hook-runs-twice  hooks        2-16   sim,cuda  A hook runs twice: gradients are counted two "
      "times.\n"
      "batches-uneven   collectives  2,4    cpu       One rank has a batch less, and the others "
      "HANG.\n");
}

TEST(ListAsTable, LeavesOutColumnsAndCutsTheSentence) {
  EXPECT_EQ(list_as_table(whole_list(), 80),
            "scenario         class        ranks  fault\n"
            "loss-outside     hooks        2,4    The loss is computed beside the wrapper,...\n"
            "hook-runs-twice  hooks        2-16   A hook runs twice: gradients are counted...\n"
            "batches-uneven   collectives  2,4    One rank has a batch less, and the other...\n");
  EXPECT_EQ(list_as_table(whole_list(), 40),
            "scenario         fault\n"
            "loss-outside     The loss is computed...\n"
            "hook-runs-twice  A hook runs twice: g...\n"
            "batches-uneven   One rank has a batch...\n");
}

TEST(ListAsTable, WithoutRoomForTheSentencePutsItBelow) {
  EXPECT_EQ(list_as_table(whole_list(), 30),
            "loss-outside\n  The loss is computed besi...\n"
            "hook-runs-twice\n  A hook runs twice: gradie...\n"
            "batches-uneven\n  One rank has a batch less...\n");
}

TEST(ListAsTable, KeepsToEveryWidth) {
  for (std::size_t width = 20; width < 130; ++width) {
    for (const std::string& line : lines_of(list_as_table(whole_list(), width))) {
      EXPECT_LE(line.size(), width) << line;
    }
  }
}

TEST(ListSummary, CountsScenariosAndNamesClasses) {
  EXPECT_EQ(list_summary(whole_list(), 100), "3 scenarios of 2 classes: hooks, collectives\n");
  EXPECT_EQ(list_summary(filter_scenarios(kCatalogue, {"hang"}), 100),
            "1 scenario of 1 class: collectives\n");
}

TEST(AxesInShort, NameTheFewer) {
  const Scenario& scenario = kCatalogue[0];
  EXPECT_EQ(axes_in_short(scenario, *find_variant(scenario, "bug")), "all but shapes");
  EXPECT_EQ(axes_in_short(scenario, *find_variant(scenario, "fix")), "rate");
  EXPECT_EQ(axes_in_short(kCatalogue[2], kCatalogue[2].variants[0]), "none");
}

TEST(Sheets, AreThoseOfTheGoldens) {
  const Scenario& scenario = kCatalogue[0];
  expect_golden_file("listing/list-verbose", list_with_variants(whole_list(), 80));
  expect_golden_file("listing/sheet", scenario_sheet(scenario, 80));
  expect_golden_file("listing/sheet-40", scenario_sheet(scenario, 40));
  expect_golden_file("listing/variant",
                     variant_sheet(scenario, *find_variant(scenario, "bug"), 80));
  expect_golden_file("listing/catalogue-json", catalogue_as_json(whole_list()));
  expect_golden_file("listing/catalogue-markdown", catalogue_as_markdown(whole_list()));
}

TEST(Sheets, OfAVariantWithOwnClaimsAndReferenceSayThem) {
  const Scenario& scenario = kCatalogue[0];
  const std::string sheet = variant_sheet(scenario, *find_variant(scenario, "other"), 100);
  EXPECT_THAT(sheet, HasSubstr("Compared with:  special"));
  EXPECT_THAT(sheet, HasSubstr("keeps:  every claim"));
  EXPECT_THAT(sheet, HasSubstr("Additional claims\n  buffers agree across ranks"));
}

TEST(CatalogueAsJson, OfWantedVariantsHasThoseAlone) {
  const std::string json = catalogue_as_json(wanted_of(kCatalogue, {"loss*/b*"}));
  EXPECT_THAT(json, HasSubstr("\"name\": \"bug\""));
  EXPECT_THAT(json, testing::Not(HasSubstr("\"name\": \"fix\"")));
  EXPECT_THAT(json, testing::Not(HasSubstr("hook-runs-twice")));
}

TEST(ListAsMarkdown, EscapesWhatWouldEndACell) {
  std::vector<Scenario> one{listed_scenario("a", "Either | or.", "hooks")};
  EXPECT_EQ(list_as_markdown(filter_scenarios(one, {})),
            "| scenario | fault |\n|---|---|\n| `a` | Either \\| or. |\n");
}

}  // namespace
}  // namespace lockstep
