#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

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
            "Not everything could be decided: 2 cells, 1 as expected, 1 UNDECIDED.\n");
  run.cells.push_back(literal_missed());
  EXPECT_EQ(last_line(run),
            "Not everything is as expected: 3 cells, 1 as expected, 1 NOT FOUND, 1 UNDECIDED.\n");
}

TEST(Console, SaysOnceWhyCellsWereNotRun) {
  CellRecord another = literal_not_applicable();
  another.cell.variant = "summed";
  CellRecord for_another_reason = another;
  for_another_reason.cell.variant = "flat";
  for_another_reason.expectation.not_applicable = "there is no GPU";
  const std::string text =
      render_console(literal_run_of({literal_not_applicable(), another, for_another_reason}));
  EXPECT_THAT(text, HasSubstr("NOT RUN: averaged (wrong-fix), summed (wrong-fix): needs at least 3 "
                              "ranks"));
  EXPECT_EQ(text.find("needs at least"), text.rfind("needs at least"));
  EXPECT_THAT(text, HasSubstr("NOT RUN: flat (wrong-fix): there is no GPU\n"));
}

TEST(Console, FoldsRepetitionsThatAreAsExpected) {
  RunRecord run = literal_run_of({});
  for (int repetition = 1; repetition <= 10; ++repetition) {
    run.cells.push_back(literal_fixed(repetition));
  }
  const std::string text = render_console(run);
  EXPECT_THAT(text, HasSubstr("tolerance 3.6e-07 (4 perturbed\n    references); 10 of 10 "
                              "repetitions as expected\n"));
  EXPECT_EQ(text.find("(fixed)"), text.rfind("(fixed)"));
  EXPECT_EQ(text.find("=\n"), text.rfind("=\n")) << "one section whatever the repetitions";
}

TEST(Console, ShowsRepetitionsThatAreNotAsExpectedBesideTheFirst) {
  const std::string text = render_console(
      literal_run_of({literal_fixed(1), literal_buggy(), literal_fixed(2), literal_odd_one_out()}));
  EXPECT_THAT(text,
              HasSubstr("; 2 of 3 repetitions as expected\n"
                        "FAILED: all-reduce-each (fixed, must be right), repetition 3: ranks"));
  EXPECT_LT(text.find("repetition 3"), text.find("bypass (buggy)"));
}

TEST(Console, SaysTheLargestMarginOfAllRepetitions) {
  CellRecord far = literal_fixed(2);
  far.results.back().margin = 0.75;
  EXPECT_THAT(render_console(literal_run_of({literal_fixed(1), far})),
              HasSubstr("at most 75 % of"));
}

TEST(Console, DoesNotTakeAnotherSeedForARepetition) {
  CellRecord other = literal_fixed(2);
  other.cell.seed = 7;
  EXPECT_THAT(render_console(literal_run_of({literal_fixed(1), other})),
              Not(HasSubstr("repetitions as expected")));
}

TEST(Console, SaysWhyACellWasNotTriggered) {
  EXPECT_THAT(render_console(literal_run_of({literal_not_triggered()})),
              HasSubstr("\none-micro-batch (latent): as expected: not triggered\n"
                        "  as expected: it is not triggered: no rank reached the branch point\n"));
}

/// The text after the verdict in the heading of a cell.
std::string margin_of(const std::vector<ClaimResult>& results) {
  CellRecord cell = literal_cell("s", "v", Role::fixed, CellVerdict::as_expected);
  cell.results = results;
  const std::string text = render_console(literal_run_of({cell}));
  const auto begin = text.find("as expected") + 11;
  return text.substr(begin, text.find("\n\n", begin) - begin);
}

TEST(Console, SaysHowNearACellCameToItsTolerance) {
  ClaimResult far = literal_margin(4);
  far.verdict = Verdict::undecided;
  ClaimResult old = literal_margin(0.25);
  old.tolerance.reset();
  ClaimResult open = literal_margin(0);
  open.verdict = Verdict::undecided;
  open.margin.reset();
  ClaimResult violated = literal_margin(50);
  violated.verdict = Verdict::violated;
  EXPECT_EQ(margin_of({literal_margin(0), literal_margin(0)}),
            "; equal to the reference bit for bit");
  EXPECT_EQ(margin_of({literal_margin(0), far}),
            "; off by at most 4 times the tolerance 3.6e-07 (4 perturbed references)");
  EXPECT_EQ(margin_of({old}), "; off by at most 25 % of the tolerance");
  EXPECT_EQ(margin_of({literal_margin(0), open}),
            "; equal to the reference bit for bit as far as it was compared");
  EXPECT_EQ(margin_of({literal_margin(0.5), violated}), "");
  EXPECT_EQ(margin_of({open}), "");
}

/// The lines of the cost table, without its heading and footnote.
std::vector<std::string> cost_lines(const RunRecord& run) {
  std::vector<std::string> lines;
  bool is_inside = false;
  for (const std::string& line : lines_of(render_console(run))) {
    if (line.empty()) is_inside = false;
    if (is_inside) lines.push_back(line);
    if (line == "Cost of a step, on one rank:") is_inside = true;
  }
  if (!lines.empty()) lines.pop_back();
  return lines;
}

TEST(Console, SaysWhatAStepCosts) {
  RunRecord run = literal_run_of({literal_buggy(), literal_fixed(1), literal_fixed(2)});
  run.cells[0].cost = Cost{0, 0, std::nullopt};
  run.cells[1].cost = Cost{2.5, 123456789012, 0.01234};
  EXPECT_THAT(
      cost_lines(run),
      testing::ElementsAre("variant         | role  | collectives |        bytes |    time",
                           "bypass          | buggy |           0 |            0 |       -",
                           "all-reduce-each | fixed |         2.5 | 123456789012 | 12.3 ms"));
  run.cells[1].cell.role = Role::wrong_fix;
  run.cells.pop_back();
  EXPECT_THAT(cost_lines(run), testing::IsEmpty()) << "there is no fix whose cost it could be";
}

TEST(Console, SaysTheMemoryOfAWrongFixBesideThatOfAFix) {
  RunRecord run = literal_run_of({literal_fixed(1), literal_buggy()});
  run.cells[0].cost = Cost{2, 64, 0.01, 1'000};
  run.cells[1].cell.role = Role::wrong_fix;
  run.cells[1].cost = Cost{2, 64, 0.01, 3'100};
  EXPECT_THAT(
      cost_lines(run),
      testing::ElementsAre("variant         | role      | collectives | bytes |    time | memory",
                           "all-reduce-each | fixed     |           2 |    64 | 10.0 ms |   1000",
                           "bypass          | wrong-fix |           2 |    64 | 10.0 ms |   3100",
                           testing::_));
}

TEST(Console, PrintsTimesWithThreeDigits) {
  RunRecord run = literal_run_of({literal_fixed(1)});
  const auto time = [&](double seconds) {
    run.cells[0].cost->step_s = seconds;
    const std::string line = cost_lines(run).at(1);
    return line.substr(line.rfind("| ") + 2);
  };
  EXPECT_EQ(time(1.234e-6), "1.23 us");
  EXPECT_EQ(time(0.00099949), "999 us");
  EXPECT_EQ(time(0.00099951), "1.00 ms");
  EXPECT_EQ(time(0.0099951), "10.0 ms");
  EXPECT_EQ(time(0.1), "100 ms");
  EXPECT_EQ(time(12.3456), "12346 ms");
  EXPECT_EQ(time(kNaN), "   -");
}

TEST(Console, TellsTheNotesOfTheRunBeforeTheDetectionTable) {
  RunRecord run = literal_run_of({literal_buggy()});
  run.notes = {"13 of 512 choices were run"};
  EXPECT_THAT(render_console(run), HasSubstr("\n\nnote: 13 of 512 choices were run\n\nscenario "));
}

}  // namespace
}  // namespace lockstep
