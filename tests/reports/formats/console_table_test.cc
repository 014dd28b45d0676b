#include "reports/formats/console_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_tables.h"

namespace lockstep {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The lines printed by the pull request's script.
constexpr const char* kPublishedGradients =
    "Table 1 - gradient on weight[0] after backward, per rank:\n"
    "step |  BUGGY g_r0        g_r1  synced |  FIXED g_r0        g_r1  synced\n"
    "   1 |     0.04043     0.19431   False |     0.11737     0.11737    True\n"
    "   2 |    -0.13683    -0.05685   False |    -0.09659    -0.09659    True\n"
    "   3 |     0.05426    -0.25685   False |    -0.10196    -0.10196    True\n"
    "   4 |     0.02004    -0.01721   False |    -0.00963    -0.00963    True\n"
    "   5 |    -0.21217    -0.45084   False |    -0.34623    -0.34623    True\n";
constexpr const char* kPublishedDrift =
    "Table 2 - cross-rank model divergence max|W_rank0 - W_rank1| after each step:\n"
    "step |        BUGGY |        FIXED\n"
    "   1 |     0.050678 |     0.000000\n"
    "   2 |     0.073750 |     0.000000\n"
    "   3 |     0.093219 |     0.000000\n"
    "   4 |     0.118547 |     0.000000\n"
    "   5 |     0.132573 |     0.000000\n";

std::string render_table(const Table& table) {
  RunRecord run;
  run.tables = {table};
  return render_console(run);
}

/// The lines of a rendered table, without its title and surrounding text.
std::vector<std::string> table_lines(const Table& table) {
  std::vector<std::string> lines;
  std::istringstream text(render_table(table));
  for (std::string line; std::getline(text, line);) {
    if (line.find(" | ") != std::string::npos && !line.starts_with("scenario")) {
      lines.push_back(line);
    }
  }
  return lines;
}

TEST(ConsoleTable, PrintsThePublishedTablesByteForByte) {
  EXPECT_NE(render_table(published_gradients()).find(std::string("\n") + kPublishedGradients),
            std::string::npos);
  EXPECT_NE(render_table(published_drift()).find(std::string("\n") + kPublishedDrift),
            std::string::npos);
}

TEST(ConsoleTable, FoldsItsTitleAndNotes) {
  const std::string text = table_text(published_drift(), {.width = 40});
  EXPECT_THAT(text, StartsWith("Table 2 - cross-rank model divergence\n"
                               "  max|W_rank0 - W_rank1| after each\n"
                               "  step:\n"
                               "step |        BUGGY |        FIXED\n"));
  for (const std::string& line : lines_of(table_text(literal_distances(), {.width = 40}))) {
    EXPECT_TRUE(line.size() <= 40 || line.find(" | ") != line.npos) << line;
  }
}

TEST(ConsoleTable, SaysWhatSyncedMeans) {
  EXPECT_NE(render_table(published_gradients())
                .find("\nsynced: all ranks hold the same bits of weight's gradient\n"),
            std::string::npos);
  EXPECT_EQ(render_table(published_drift()).find("synced"), std::string::npos);
}

TEST(ConsoleTable, PrintsADashForWhatWasNotMeasured) {
  Table table = published_gradients();
  table.rows.resize(2);
  table.rows[0].entries[0] = {{kNaN, 0.5}, false};
  table.rows[1].entries = {{{kNaN}, false}};
  EXPECT_EQ(table_lines(table)[1],
            "   1 |           -     0.50000   False |     0.11737     0.11737    True");
  EXPECT_EQ(table_lines(table)[2],
            "   2 |           -           -       - |           -           -       -");
}

TEST(ConsoleTable, NamesAColumnOfEstimatesAloneAfterThem) {
  Table table = published_drift();
  table.spec.digits = 0;
  table.spec.groups = {{.heading = "", .variant = "bypass"}};
  table.rows = {{1, {{{0}, true}}}, {2, {{{kNaN}, false}}}, {3, {{{0.25}, false}}}};
  table.rows[1].entries[0].estimate = 0.125;
  const auto mixed = table_lines(table);
  EXPECT_THAT(mixed[0], HasSubstr("max|Wi-Wj|"));
  EXPECT_THAT(mixed[2], HasSubstr(" L2 ~1.2e-01"));
  EXPECT_THAT(render_table(table), HasSubstr("\nL2 ~: values were not stored;"));
  table.rows.pop_back();
  const auto estimated = table_lines(table);
  EXPECT_THAT(estimated[0], HasSubstr(" ~L2|Wi-W0|"));
  EXPECT_THAT(estimated[1], EndsWith(" 0"));
  EXPECT_THAT(estimated[2], EndsWith(" 1.2e-01"));
  EXPECT_THAT(render_table(table), HasSubstr("\n~L2: values were not stored;"));
}

TEST(ConsoleTable, PutsGroupsThatDoNotFitBelow) {
  Table table = published_gradients();
  table.spec.groups.push_back({"WRAPPED", "through-wrapper"});
  for (Table::Row& row : table.rows) row.entries.push_back(row.entries[1]);
  const auto lines = table_lines(table);
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "step |  BUGGY g_r0        g_r1  synced |  FIXED g_r0        g_r1  synced");
  EXPECT_EQ(lines[6], "step | WRAPPED g_r0        g_r1  synced");
  EXPECT_EQ(lines[7], "   1 |      0.11737     0.11737    True");
}

TEST(ConsoleTable, ShowsFourRanksOfManyAndSaysSo) {
  Table table = published_gradients();
  table.world_size = 64;
  table.spec.groups.resize(1);
  table.rows = {{1, {{std::vector<double>(64, 0.25), true}}}};
  const auto lines = table_lines(table);
  EXPECT_EQ(lines[0], "step |  BUGGY g_r0        g_r1        g_r2        g_r3 ...  synced");
  EXPECT_EQ(lines[1], "   1 |     0.25000     0.25000     0.25000     0.25000 ...    True");
  EXPECT_NE(render_table(table).find("the first 4 of 64 ranks are shown"), std::string::npos);
  table.rows[0].entries[0].values.resize(4);
  EXPECT_EQ(table_lines(table)[0],
            "step |  BUGGY g_r0        g_r1        g_r2        g_r3  synced");
  EXPECT_EQ(render_table(table).find("are shown"), std::string::npos);
}

TEST(ConsoleTable, KeepsColumnsUnderEachOtherWhateverTheNumber) {
  Table table = published_drift();
  table.rows.resize(1);
  table.rows[0].entries[0].values = {123456789.25};
  EXPECT_EQ(table_lines(table)[0], "step |            BUGGY |        FIXED");
  EXPECT_EQ(table_lines(table)[1], "   1 | 123456789.250000 |     0.000000");
}

/// The pipeline's lines printed by the author of OpenTSLM#49.
constexpr const char* kPublishedNorms =
    "BUGGY (current code: loss on _get_model(), no all-reduce)\n"
    "step | per-rank grad norm     | grad_synced | weight drift across ranks\n"
    "  0  | [29.180, 29.762]       |   False     |  0.000e+00\n"
    "  1  | [30.274, 29.429]       |   False     |  0.000e+00\n"
    "  2  | [30.679, 29.582]       |   False     |  1.769e-04\n"
    "  3  | [28.949, 29.850]       |   False     |  3.611e-04\n"
    "\n"
    "FIXED (+ all-reduce grads after backward)\n"
    "step | per-rank grad norm     | grad_synced | weight drift across ranks\n"
    "  0  | [28.969, 28.969]       |   True      |  0.000e+00\n"
    "  1  | [29.689, 29.689]       |   True      |  0.000e+00\n"
    "  2  | [29.913, 29.913]       |   True      |  0.000e+00\n"
    "  3  | [29.223, 29.223]       |   True      |  0.000e+00\n";

TEST(NormTable, PrintsThePublishedTableByteForByte) {
  EXPECT_THAT(table_text(published_norms()), HasSubstr(std::string(":\n") + kPublishedNorms));
}

TEST(NormTable, DoesNotCallRanksSyncedOfWhichOneHasNoValue) {
  Table table = published_norms();
  table.rows[1].entries[1].values[1] = std::numeric_limits<double>::quiet_NaN();
  table.rows[2].entries[0].values[1] = std::numeric_limits<double>::quiet_NaN();
  const std::string text = table_text(table);
  EXPECT_THAT(text, HasSubstr("  1  | [29.689, -]            |   -         |"));
  EXPECT_THAT(text, HasSubstr("  2  | [30.679, -]            |   False     |"));
}

TEST(NormTable, SaysWhatItsColumnsMean) {
  EXPECT_THAT(table_text(published_norms()),
              HasSubstr("\nnorm: of all gradients on a rank; synced: all ranks hold the same bits\n"
                        "drift: max|W_i - W_j| over all parameters, before the step\n"));
  Table table = published_norms();
  table.spec.tensor = "weight";
  EXPECT_THAT(table_text(table), HasSubstr("\nnorm: of weight's gradient on a rank;"));
}

TEST(NormTable, PrintsADashForWhatWasNotMeasured) {
  Table table = published_norms();
  table.rows.resize(3);
  table.rows[0].entries[0] = {{kNaN, 29.762}, false, kNaN};
  table.rows[1].entries[0] = {{kNaN, kNaN}, false, {}};
  table.rows[2].entries.clear();
  const auto lines = table_lines(table);
  EXPECT_EQ(lines[1], "  0  | [-, 29.762]            |   False     |  -");
  EXPECT_EQ(lines[2], "  1  | -                      |   -         |  -");
  EXPECT_EQ(lines[3], "  2  | -                      |   -         |  -");
}

TEST(NormTable, GrowsWithItsNumbersAndNamesItsKind) {
  Table table = published_norms();
  table.spec.kind = Kind::buffer;
  table.spec.groups.resize(1);
  table.spec.first_step = 1;
  table.rows = {{1, {{{1}, true, 0}}}, {100'000, {{{123456789, 987654321, 1}, false, 1e100}}}};
  const auto lines = table_lines(table);
  EXPECT_EQ(lines[0],
            "step   | per-rank buffer norm                  | buffer_synced | weight drift across "
            "ranks");
  EXPECT_EQ(lines[1],
            "     1 | [1.000]                               |   True        |  0.000e+00");
  EXPECT_EQ(lines[2],
            "100000 | [123456789.000, 987654321.000, 1.000] |   False       |  1.000e+100");
}

TEST(NormTable, ShowsFourRanksOfManyAndSaysSo) {
  Table table = published_norms();
  table.spec.groups.resize(1);
  table.rows = {{1, {{std::vector<double>(8, 1.5), true, 0}}}};
  EXPECT_EQ(table_lines(table)[1],
            "  0  | [1.500, 1.500, 1.500, 1.500, ...] |   True      |  0.000e+00");
  EXPECT_THAT(table_text(table), HasSubstr("the first 4 of 8 ranks are shown"));
}

TEST(DistanceTable, ShowsHowFarEachRankIsFromRank0) {
  const auto lines = table_lines(literal_distances());
  EXPECT_EQ(lines[0], "step |  BUGGY W_r0        W_r1 |  FIXED W_r0        W_r1");
  EXPECT_EQ(lines[1], "   1 |   0.000e+00   5.068e-02 |   0.000e+00   0.000e+00");
  EXPECT_EQ(lines[2], "   4 |   0.000e+00   1.185e-01 |   0.000e+00   0.000e+00");
  const std::string text = table_text(literal_distances());
  EXPECT_THAT(text, HasSubstr("\nW_rN: max |value on rank N - value on rank 0| over all "
                              "parameters\n"));
  EXPECT_THAT(text, Not(HasSubstr("synced")));
}

TEST(ConsoleTable, CountsStepsAsThePublishedTableDoes) {
  for (Table table : {published_gradients(), published_drift(), literal_distances()}) {
    table.spec.first_step = 0;
    EXPECT_TRUE(table_lines(table)[1].starts_with("   0 | ")) << table.spec.title;
  }
}

}  // namespace
}  // namespace lockstep
