#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// The rows of the report whose first cell is `row`, without that cell.
std::vector<std::string> rows(const RunRecord& run, const std::string& row) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(render_csv(run))) {
    if (line.starts_with(row + ",")) found.push_back(line.substr(row.size() + 1));
  }
  return found;
}

TEST(Csv, HasAsManyCellsInEveryRow) {
  for (const std::string& line : lines_of(render_csv(literal_run()))) {
    bool is_quoted = false;
    int commas = 0;
    for (const char c : line) {
      if (c == '"') is_quoted = !is_quoted;
      if (c == ',' && !is_quoted) ++commas;
    }
    EXPECT_EQ(commas, 19) << line;
  }
}

TEST(Csv, GivesAClaimItsMarginItsToleranceAndWhereThatIsFrom) {
  RunRecord run;
  run.cells = {literal_fixed(7)};
  run.cells[0].results.back().margin = 1.0 / 3;
  EXPECT_THAT(rows(run, "claim"),
              Contains(EndsWith("holds,,0.3333333333333333,3.6e-07,4 perturbed references,7")));
}

TEST(Csv, LeavesOutTheTimeOfAStepThatIsNotKnown) {
  RunRecord run;
  run.cells = {literal_buggy()};
  run.cells[0].cost = Cost{2.5, 1234567, std::nullopt};
  EXPECT_THAT(rows(run, "cost"), ElementsAre(HasSubstr(",collectives,,,,,,,2.5,"),
                                             HasSubstr(",bytes,,,,,,,1234567,")));
}

TEST(Csv, PutsSyncedAndTheDriftOfTheParametersBehindANorm) {
  RunRecord run;
  run.tables = {published_norms()};
  run.tables[0].rows.resize(1);
  run.tables[0].rows[0].entries = {{{1.5, kNaN}, false, kNaN}};
  const std::string begin = "loss-on-unwrapped-module,bypass,,2,,";
  EXPECT_THAT(rows(run, "value"),
              ElementsAre(StartsWith(begin + "norm,gradient,pre_step,,,1,0,1.5,"),
                          StartsWith(begin + "norm,gradient,pre_step,,,1,1,nan,"),
                          StartsWith(begin + "synced,gradient,pre_step,,,1,,0,"),
                          StartsWith(begin + "drift,parameter,pre_forward,,,1,,nan,")));
}

TEST(Csv, GivesADistancePerRankAndCountsStepsFromOne) {
  RunRecord run;
  run.tables = {literal_distances()};
  run.tables[0].spec.first_step = 0;
  run.tables[0].spec.groups.resize(1);
  const std::string begin = "loss-on-unwrapped-module,bypass,,2,,distance,parameter,post_step,,,";
  EXPECT_THAT(rows(run, "value"),
              ElementsAre(StartsWith(begin + "1,0,0,"), StartsWith(begin + "1,1,0.050678,"),
                          StartsWith(begin + "4,0,0,"), StartsWith(begin + "4,1,0.118547,")));
}

/// Spreadsheets take full-width signs for the others, and in many countries divide at semicolons.
TEST(Csv, PassesNoTextAsAFormula) {
  RunRecord run;
  run.jobs.resize(1);
  const auto title_in_csv = [&](const std::string& title) {
    run.jobs[0].title = title;
    const std::string line = rows(run, "job").at(0);
    return line.substr(0, line.find(','));
  };
  for (const std::string sign : {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}) {
    EXPECT_EQ(title_in_csv(sign + "1"), "'" + sign + "1");
    EXPECT_EQ(title_in_csv("  " + sign + "1"), "'  " + sign + "1");
    EXPECT_EQ(title_in_csv("a;" + sign + "1"), "a;'" + sign + "1");
    EXPECT_EQ(title_in_csv("a; " + sign + "1;;" + sign), "a;' " + sign + "1;;'" + sign);
    EXPECT_EQ(title_in_csv("\t" + sign + "1"), "\\x09" + sign + "1");
    EXPECT_EQ(title_in_csv("a" + sign + "1;b" + sign), "a" + sign + "1;b" + sign);
  }
  EXPECT_EQ(title_in_csv("a; b;"), "a; b;");
}

}  // namespace
}  // namespace lockstep
