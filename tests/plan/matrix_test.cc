#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>

#include "harness/plan/reproduce.h"
#include "harness/plan/select_cells.h"
#include "reports/base/error.h"
#include "tests/plan/literal_scenario.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// One variant on four axes of three values, and its reference, which depends on one of them.
Scenario wide_scenario() {
  Scenario scenario = literal_scenario("wide");
  scenario.axes = {{"a", {"0", "1", "2"}, "0"},
                   {"b", {"0", "1", "2"}, "0", {"bug"}},
                   {"c", {"0", "1", "2"}, "0", {"bug"}},
                   {"d", {"0", "1", "2"}, "0", {"bug"}}};
  scenario.variants = {{"bug", Role::buggy, "the bug"},
                       {"plain", Role::reference, "what it is compared with"}};
  return scenario;
}

constexpr std::size_t kWhole = 81 + 3;

const std::vector<Scenario> kNarrow{literal_scenario()};
const std::vector<Scenario> kWide{wide_scenario()};

Selection matrix(std::size_t max_cells = 1'000) {
  Selection selection;
  selection.matrix = true;
  selection.max_cells = max_cells;
  return selection;
}

std::size_t cells_of(const Plan& plan, const std::string& variant) {
  std::size_t count = 0;
  for (const PlannedCell& planned : plan.cells) count += planned.cell.variant == variant ? 1 : 0;
  return count;
}

TEST(Matrix, IsEveryValueOfTheAxesThatAVariantDependsOn) {
  const Plan plan = select_cells(kNarrow, matrix());
  EXPECT_EQ(cells_of(plan, "bug"), 6U);
  EXPECT_EQ(cells_of(plan, "fix"), 2U);
  EXPECT_EQ(cells_of(plan, "other"), 4U);
  EXPECT_EQ(cells_of(plan, "plain"), 2U);
  EXPECT_EQ(cells_of(plan, "special"), 4U);
  EXPECT_THAT(plan.notes, ElementsAre("matrix: 18 cells, every combination of axis values"));
}

TEST(Matrix, LeavesOutWhatWasSet) {
  Selection selection = matrix();
  selection.axes = {{"rate", "fast"}};
  const Plan plan = select_cells(kNarrow, selection);
  EXPECT_EQ(cells_of(plan, "bug"), 3U);
  for (const PlannedCell& planned : plan.cells) EXPECT_EQ(axis_value(planned.cell, "rate"), "fast");
}

TEST(Matrix, BringsAReferenceForEachOfItsOwnValuesOnce) {
  Selection selection = matrix();
  selection.names = {"bug-class/bug"};
  const Plan plan = select_cells(kNarrow, selection);
  EXPECT_EQ(cells_of(plan, "bug"), 6U);
  EXPECT_EQ(cells_of(plan, "plain"), 2U);
  EXPECT_THAT(plan.cells, SizeIs(8));
}

TEST(Matrix, HasNoNoteWhereNoneWasAskedFor) {
  EXPECT_THAT(select_cells(kNarrow, Selection{}).notes, IsEmpty());
}

TEST(Matrix, ThatFitsExactlyIsWhole) {
  EXPECT_THAT(select_cells(kWide, matrix(kWhole)).cells, SizeIs(kWhole));
}

TEST(Matrix, BeyondTheMostCellsIsEveryPairAndSaysSo) {
  const Plan plan = select_cells(kWide, matrix(kWhole - 1));
  EXPECT_LT(plan.cells.size(), 30U);
  std::set<std::string> pairs;
  for (const PlannedCell& planned : plan.cells) {
    if (planned.cell.variant != "bug") continue;
    const std::vector<AxisValue>& chosen = planned.cell.axes;
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      for (std::size_t b = a + 1; b < chosen.size(); ++b) {
        pairs.insert(chosen[a].axis + chosen[a].value + chosen[b].axis + chosen[b].value);
      }
    }
  }
  EXPECT_THAT(pairs, SizeIs(6 * 9));
  EXPECT_EQ(cells_of(plan, "plain"), 3U);
  EXPECT_THAT(plan.notes, ElementsAre("matrix: " + std::to_string(plan.cells.size()) +
                                      " of 84 cells, covering every pair of axis values"));
}

/// A large scenario does not reduce a small one to pairs, nor one world another.
TEST(Matrix, IsBoundedForEachScenarioInEachWorld) {
  std::vector<Scenario> both = kNarrow;
  both.insert(both.end(), kWide.begin(), kWide.end());
  Selection selection = matrix(kWhole - 1);
  selection.world_sizes = {2, 4};
  const std::size_t narrow = select_cells(kNarrow, selection).cells.size();
  const std::size_t wide = select_cells(kWide, selection).cells.size();
  EXPECT_EQ(narrow, 2 * select_cells(kNarrow, matrix()).cells.size());
  EXPECT_EQ(wide, 2 * select_cells(kWide, matrix(kWhole - 1)).cells.size());
  const Plan plan = select_cells(both, selection);
  EXPECT_THAT(plan.cells, SizeIs(narrow + wide));
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr(" cells, covering every pair of axis")));
}

TEST(Matrix, OfTooFewCellsForThePairsIsEveryValueAndSaysSo) {
  const std::size_t pairs = select_cells(kWide, matrix(kWhole - 1)).cells.size();
  EXPECT_THAT(select_cells(kWide, matrix(pairs)).cells, SizeIs(pairs));
  const Plan plan = select_cells(kWide, matrix(pairs - 1));
  std::set<std::string> values;
  for (const PlannedCell& planned : plan.cells) {
    if (planned.cell.variant != "bug") continue;
    for (const AxisValue& chosen : planned.cell.axes) values.insert(chosen.axis + chosen.value);
  }
  EXPECT_THAT(values, SizeIs(4 * 3));
  EXPECT_LT(cells_of(plan, "bug"), 6U);
  EXPECT_EQ(cells_of(plan, "plain"), 3U);
  EXPECT_THAT(plan.notes, ElementsAre("matrix: " + std::to_string(plan.cells.size()) +
                                      " of 84 cells, covering every axis value"));
}

/// A value occurs in a cell of one variant; every variant has a cell.
TEST(Matrix, OfValuesSharesThemAmongVariants) {
  std::vector<Scenario> some = kWide;
  some[0].axes = {{"a", {"0", "1", "2"}, "0"}, {"b", {"0", "1", "2"}, "0"}};
  some[0].variants = {
      {"bug", Role::buggy, ""}, {"fix", Role::fixed, ""}, {"late", Role::latent, ""}};
  const Plan plan = select_cells(some, matrix(3));
  std::set<std::string> variants, values;
  for (const PlannedCell& planned : plan.cells) {
    variants.insert(planned.cell.variant);
    for (const AxisValue& chosen : planned.cell.axes) values.insert(chosen.axis + chosen.value);
  }
  EXPECT_THAT(plan.cells, SizeIs(3));
  EXPECT_THAT(variants, SizeIs(3));
  EXPECT_THAT(values, SizeIs(2 * 3));
}

TEST(Matrix, OfValuesRunsEveryVariantThatCanRun) {
  std::vector<Scenario> some = kWide;
  some[0].axes = {{"a", {"0", "1", "2"}, "0"}};
  some[0].variants = {{"bug", Role::buggy, ""}, {"fix", Role::fixed, ""}};
  some[0].precondition = [](const Cell& cell) {
    const bool can_run = cell.variant == "bug" || axis_value(cell, "a") == "2";
    return std::string(can_run ? "" : "the fix needs a=2");
  };
  int run = 0;
  for (const PlannedCell& planned : select_cells(some, matrix(5)).cells) {
    run += planned.cell.variant == "fix" && planned.expectation.not_applicable.empty() ? 1 : 0;
  }
  EXPECT_EQ(run, 1);
}

TEST(Matrix, OfTooFewCellsForTheValuesIsRefusedWithTheNumber) {
  EXPECT_THAT(select_cells(kWide, matrix(8)).cells, SizeIs(8));
  try {
    select_cells(kWide, matrix(7));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), HasSubstr("--max-cells cannot be '7': give at least 8,"));
  }
}

/// The note states what holds for every scenario.
TEST(Matrix, OfPairsInOneScenarioAndValuesInAnotherSaysValues) {
  const std::size_t pairs = select_cells(kWide, matrix(kWhole - 1)).cells.size();
  std::vector<Scenario> both = kNarrow;
  both.insert(both.end(), kWide.begin(), kWide.end());
  EXPECT_THAT(select_cells(both, matrix(pairs - 1)).notes,
              ElementsAre(HasSubstr("covering every axis value")));
}

TEST(Matrix, OfValuesHasNoneInACellThatCannotBeRun) {
  std::vector<Scenario> some = kWide;
  some[0].expect = [](const Cell& cell) {
    Expectation expectation;
    if (cell.role == Role::buggy && axis_value(cell, "b") != "1" && axis_value(cell, "c") == "2") {
      expectation.not_applicable = "c=2 needs b=1";
    }
    return expectation;
  };
  const Plan plan = select_cells(some, matrix(12));
  bool has_run = false;
  for (const PlannedCell& planned : plan.cells) {
    if (planned.cell.variant != "bug" || axis_value(planned.cell, "c") != "2") continue;
    has_run |= planned.expectation.not_applicable.empty();
  }
  EXPECT_TRUE(has_run);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("covering every axis value")));
}

TEST(Matrix, CountsACellOnceHoweverOftenItIsRepeated) {
  Selection selection = matrix(kWhole);
  selection.repetitions = 2;
  EXPECT_THAT(select_cells(kWide, selection).cells, SizeIs(2 * kWhole));
}

/// Ten axes of four values: a million cells per variant.
Scenario vast_scenario() {
  Scenario scenario = wide_scenario();
  scenario.axes.clear();
  for (char name = 'a'; name < 'k'; ++name) {
    scenario.axes.push_back({std::string(1, name), {"0", "1", "2", "3"}, "0"});
  }
  return scenario;
}

TEST(Matrix, OfAMillionCellsIsCountedAndNotMade) {
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = select_cells({vast_scenario()}, matrix());
  EXPECT_LT(plan.cells.size(), 120U);
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr(" of 2097152 cells, covering every pair")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Matrix, OfPairsBringsEachReferenceOnce) {
  const Plan plan = select_cells({vast_scenario()}, matrix());
  EXPECT_EQ(cells_of(plan, "plain"), cells_of(plan, "bug"));
}

TEST(Matrix, OfPairsCoversThoseOfACellThatCannotBeRunWithOthers) {
  Scenario scenario = wide_scenario();
  scenario.expect = [](const Cell& cell) {
    Expectation expectation;
    if (cell.role == Role::buggy && axis_value(cell, "a") == "0" && axis_value(cell, "b") == "0") {
      expectation.not_applicable = "a and b are not 0 together";
    }
    return expectation;
  };
  const Plan plan = select_cells({scenario}, matrix(40));
  std::set<std::string> pairs;
  int unrun = 0;
  for (const PlannedCell& planned : plan.cells) {
    if (planned.cell.variant != "bug") continue;
    if (!planned.expectation.not_applicable.empty()) {
      ++unrun;
      continue;
    }
    const std::vector<AxisValue>& chosen = planned.cell.axes;
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      for (std::size_t b = a + 1; b < chosen.size(); ++b) {
        pairs.insert(chosen[a].axis + chosen[a].value + chosen[b].axis + chosen[b].value);
      }
    }
  }
  EXPECT_THAT(pairs, SizeIs(6 * 9 - 1));
  EXPECT_EQ(unrun, 1);
  EXPECT_THAT(plan.notes,
              ElementsAre(HasSubstr("values, except 1 pair for which no runnable cell was found")));
}

TEST(Matrix, ThatFitsForWantOfReferencesIsWhole) {
  Scenario scenario = wide_scenario();
  scenario.expect = [](const Cell& cell) {
    Expectation expectation;
    if (cell.role == Role::buggy) expectation.not_applicable = "never";
    return expectation;
  };
  Selection selection = matrix(81);
  selection.names = {"wide/bug"};
  EXPECT_THAT(select_cells({scenario}, selection).cells, SizeIs(81));
}

/// The selection of `command`, parsed like in the program.
Selection understood(const std::string& command) {
  Selection selection;
  std::istringstream words(command);
  std::string word;
  words >> word >> word >> word;
  selection.names = {word};
  while (words >> word) {
    std::string value;
    words >> value;
    if (word == "--ranks") selection.world_sizes = {std::stoi(value)};
    if (word == "--steps") selection.steps = std::stoll(value);
    if (word == "--seed") selection.seed = std::stoull(value);
    if (word == "--set") {
      const auto equals = value.find('=');
      selection.axes.push_back({value.substr(0, equals), value.substr(equals + 1)});
    }
  }
  return selection;
}

TEST(ReproducingCommand, OfEveryCellOfAMatrixSelectsThatCell) {
  Selection selection = matrix();
  selection.world_sizes = {2, 4};
  selection.seed = 11;
  selection.steps = 8;
  for (const PlannedCell& planned : select_cells(kNarrow, selection).cells) {
    const std::string command = reproducing_command(planned);
    EXPECT_EQ(select_cells(kNarrow, understood(command)).cells.at(0).cell, planned.cell) << command;
  }
}

}  // namespace
}  // namespace lockstep
