#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "reports/renderer.h"
#include "tests/golden/literal_run.h"

namespace lockstep {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, IsMetByteForByte) {
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/golden/" + GetParam() + ".golden";
  const std::string rendered = find_renderer(GetParam()).render(literal_run());
  if (std::getenv("LOCKSTEP_UPDATE_GOLDENS")) {
    std::ofstream(path, std::ios::binary) << rendered;
    FAIL() << path << " was written anew; read it before you trust it";
  }
  EXPECT_EQ(rendered, contents(path)) << "LOCKSTEP_UPDATE_GOLDENS=1 writes " << path << " anew";
}

std::vector<std::string> formats() {
  std::vector<std::string> names;
  for (const Renderer& renderer : renderers()) names.push_back(renderer.format);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Of, Golden, testing::ValuesIn(formats()),
                         [](const auto& format) { return format.param; });

/// The lines that the script of seed 002 printed.
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

/// The lines of a rendered table alone, without its title and what stands around it.
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

TEST(Console, PrintsThePublishedTablesByteForByte) {
  EXPECT_NE(render_table(published_gradients()).find(std::string("\n") + kPublishedGradients),
            std::string::npos);
  EXPECT_NE(render_table(published_drift()).find(std::string("\n") + kPublishedDrift),
            std::string::npos);
}

TEST(Console, SaysWhatSyncedMeans) {
  EXPECT_NE(render_table(published_gradients())
                .find("\nsynced: all ranks hold the same bits of weight's gradient\n"),
            std::string::npos);
  EXPECT_EQ(render_table(published_drift()).find("synced"), std::string::npos);
}

TEST(Console, PrintsADashForWhatWasNotMeasured) {
  Table table = published_gradients();
  table.rows.resize(2);
  table.rows[0].entries[0] = {{kNaN, 0.5}, false};
  table.rows[1].entries = {{{kNaN}, false}};
  EXPECT_EQ(table_lines(table)[1],
            "   1 |           -     0.50000   False |     0.11737     0.11737    True");
  EXPECT_EQ(table_lines(table)[2],
            "   2 |           -           -       - |           -           -       -");
}

TEST(Console, PutsGroupsThatDoNotFitBelow) {
  Table table = published_gradients();
  table.spec.groups.push_back({"WRAPPED", "through-wrapper"});
  for (Table::Row& row : table.rows) row.entries.push_back(row.entries[1]);
  const auto lines = table_lines(table);
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "step |  BUGGY g_r0        g_r1  synced |  FIXED g_r0        g_r1  synced");
  EXPECT_EQ(lines[6], "step | WRAPPED g_r0        g_r1  synced");
  EXPECT_EQ(lines[7], "   1 |      0.11737     0.11737    True");
}

TEST(Console, ShowsFourRanksOfManyAndSaysSo) {
  Table table = published_gradients();
  table.world_size = 64;
  table.spec.groups.resize(1);
  table.rows = {{1, {{std::vector<double>(64, 0.25), true}}}};
  const auto lines = table_lines(table);
  EXPECT_EQ(lines[0], "step |  BUGGY g_r0        g_r1        g_r2        g_r3 ...  synced");
  EXPECT_EQ(lines[1], "   1 |     0.25000     0.25000     0.25000     0.25000 ...    True");
  EXPECT_NE(render_table(table).find("of 64 ranks the first 4 are shown"), std::string::npos);
  table.rows[0].entries[0].values.resize(4);
  EXPECT_EQ(table_lines(table)[0],
            "step |  BUGGY g_r0        g_r1        g_r2        g_r3  synced");
  EXPECT_EQ(render_table(table).find("are shown"), std::string::npos);
}

TEST(Console, KeepsColumnsUnderEachOtherWhateverTheNumber) {
  Table table = published_drift();
  table.rows.resize(1);
  table.rows[0].entries[0].values = {123456789.25};
  EXPECT_EQ(table_lines(table)[0], "step |            BUGGY |        FIXED");
  EXPECT_EQ(table_lines(table)[1], "   1 | 123456789.250000 |     0.000000");
}

TEST(Console, StaysWithinAHundredColumns) {
  std::istringstream text(render_console(literal_run()));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Console, LetsNoControlCharacterThrough) {
  for (const char c : render_console(literal_run())) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  }
}

std::string last_line(const RunRecord& run) {
  const std::string text = render_console(run);
  return text.substr(text.rfind('\n', text.size() - 2) + 1);
}

TEST(Console, ClosesWithTheVerdictInWords) {
  RunRecord run;
  EXPECT_EQ(last_line(run), "Nothing ran: 0 cells.\n");
  run.cells = {literal_buggy()};
  EXPECT_EQ(last_line(run), "Everything is as expected: 1 cell, 1 as expected.\n");
  run.cells.push_back(literal_undecided());
  EXPECT_EQ(last_line(run),
            "Not everything could be decided: 2 cells, 1 as expected, 1 undecided.\n");
  run.cells.push_back(literal_missed());
  EXPECT_EQ(last_line(run),
            "Not everything is as expected: 3 cells, 1 as expected, 1 undecided, 1 missed.\n");
}

TEST(Renderer, OffersTheNearestName) {
  try {
    find_renderer("jsn");
    FAIL() << "found";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("'json'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep
