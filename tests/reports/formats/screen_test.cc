// The console report at each verbosity, width and on each kind of screen.

#include "reports/formats/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/brief_findings.h"
#include "reports/formats/console_table.h"
#include "reports/formats/sparkline.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_jobs.h"
#include "tests/reports/formats/literal_matrix.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

Screen screen(Verbosity verbosity, std::size_t width = 100) {
  Screen screen;
  screen.verbosity = verbosity;
  screen.width = width;
  screen.folder = "runs/latest";
  return screen;
}

/// As many scenarios, each with a bug and a repair, all as expected.
RunRecord as_expected(int scenarios) {
  RunRecord run;
  run.environment = literal_run().environment;
  for (int i = 0; i < scenarios; ++i) {
    for (CellRecord cell : {literal_buggy(), literal_fixed(1)}) {
      cell.cell.scenario = "scenario-" + std::to_string(i);
      run.cells.push_back(cell);
    }
  }
  return run;
}

TEST(Overview, OfWhatIsAsExpectedHasAtMostSixtyLines) {
  for (const int scenarios : {2, 29, 44, 70, 200}) {
    for (const std::size_t width : {40, 80, 100}) {
      const std::string text =
          render_screen(as_expected(scenarios), screen(Verbosity::overview, width));
      EXPECT_LE(lines_of(text).size(), 60U) << scenarios << " scenarios at " << width;
      EXPECT_THAT(text, HasSubstr("\nscenario-1 "));
    }
  }
}

TEST(Overview, CountsScenariosThatHaveNoRoomAndNoFailure) {
  RunRecord run = as_expected(70);
  run.cells.back() = literal_false_alarm();
  run.cells.back().cell.scenario = "scenario-69";
  const std::string text = render_screen(run, screen(Verbosity::overview));
  EXPECT_THAT(text, AllOf(HasSubstr("\nand 26 more scenarios, without a failure\n"),
                          HasSubstr("\nscenario-69 "), Not(HasSubstr("\nscenario-68 "))));
  EXPECT_THAT(render_screen(run, screen(Verbosity::variants)), HasSubstr("\nscenario-68 "));
}

TEST(Overview, BeginsWithWhatRanOnWhatAndEndsWithFilesAndVerdict) {
  RunRecord run = as_expected(2);
  run.cells[0].cell.device = DeviceKind::sim;
  run.cells[1].cell.world_size = 3;
  const std::string text = render_screen(run, screen(Verbosity::overview));
  EXPECT_THAT(text, StartsWith("lockstep 0.1.0, torch 2.11.0, gloo, cpu and sim, 2 and 3 ranks\n"));
  EXPECT_THAT(text, EndsWith("\nFiles: runs/latest\nDetails: lockstep report runs/latest -v\n"
                             "Everything is as expected: 4 cells, 4 as expected.\n"));
}

TEST(Overview, AddsUpTheTimesOfCells) {
  RunRecord run = as_expected(2);
  run.cells[0].duration_s = 61.5;
  EXPECT_THAT(render_screen(run, screen(Verbosity::overview)),
              AllOf(HasSubstr("\nscenario-0      2  1 of 1       62 s\n"),
                    HasSubstr("\nscenario-1      2  1 of 1      0.2 s\n")));
}

TEST(Overview, QuotesTheFolderForAShell) {
  Screen quoted = screen(Verbosity::overview);
  quoted.folder = "my runs";
  EXPECT_THAT(render_screen(as_expected(2), quoted),
              HasSubstr("Details: lockstep report 'my runs' -v\n"));
}

TEST(Overview, SaysOnceForEachReasonWhatWasNotRun) {
  RunRecord run = as_expected(2);
  for (const char* variant : {"a", "b", "c"}) {
    run.cells.push_back(literal_not_applicable());
    run.cells.back().cell.variant = variant;
  }
  EXPECT_THAT(render_screen(run, screen(Verbosity::overview)),
              HasSubstr("\nNOT RUN: error-after-damage/a and 2 more: needs at least 3 ranks, a sum "
                        "of two has no order\n"));
}

TEST(Overview, TellsFailuresInFullWithTheirScenarioAndLast) {
  const std::string text = render_screen(literal_run(), screen(Verbosity::overview));
  const std::size_t undecided =
      text.find("\nUNDECIDED: loss-on-unwrapped-module/hidden (latent), 2");
  const std::size_t failed = text.find("\nFAILED: loss-on-unwrapped-module/through-wrapper (fixed");
  EXPECT_LT(text.find("\nNOT RUN: "), undecided);
  EXPECT_LT(undecided, failed);
  EXPECT_LT(failed, text.find("again: lockstep run loss-on-unwrapped-module/through-wrapper"));
  EXPECT_THAT(text, Not(HasSubstr("bypass (buggy)"))) << "it is as expected";
}

TEST(Verdict, AloneIsOneSentence) {
  EXPECT_EQ(render_screen(as_expected(2), screen(Verbosity::verdict)),
            "Everything is as expected: 4 cells, 4 as expected.\n");
  EXPECT_EQ(render_screen(literal_jobs(), screen(Verbosity::verdict)), "5 jobs: 1 in lockstep.\n");
}

TEST(Variants, HaveALineEachWithTheirSymptom) {
  const std::string text = render_screen(as_expected(2), screen(Verbosity::variants));
  EXPECT_THAT(text, HasSubstr("scenario-1, 2 ranks\n===================\n\n"
                              "  bypass (buggy): ranks differ from step 1 on: weight\n"
                              "  all-reduce-each (fixed): right, within 15 % of the tolerance\n"));
  EXPECT_THAT(text, Not(HasSubstr("elements")));
}

TEST(SingleScenario, ShowsItsTablesAndWhatWasFound) {
  RunRecord run = literal_run_of({literal_buggy(), literal_fixed(1)});
  run.tables = {published_gradients(), published_drift()};
  for (const Verbosity verbosity : {Verbosity::overview, Verbosity::variants}) {
    const std::string text = render_screen(run, screen(verbosity));
    EXPECT_THAT(text, AllOf(HasSubstr("Table 1 - gradient"), HasSubstr("Table 2 - cross-rank"),
                            HasSubstr("  bypass (buggy): ranks differ from step 1 on: weight\n"
                                      "    gradients differ between ranks: weight in step 1, 16 "),
                            Not(HasSubstr("Cost of a step"))));
  }
}

TEST(Details, HaveBitsOnlyWhereAllIsShown) {
  for (const Verbosity verbosity : {Verbosity::overview, Verbosity::variants}) {
    EXPECT_THAT(render_screen(literal_run(), screen(verbosity)),
                AllOf(Not(HasSubstr("0x3dcccccd")), Not(HasSubstr("ULP"))));
  }
  EXPECT_THAT(render_screen(literal_run(), screen(Verbosity::full)), HasSubstr("ULP apart"));
}

Finding finding_about(const Claim& claim, std::int64_t step) {
  Finding finding = literal_divergence();
  finding.claim = claim;
  finding.step = step;
  finding.attribution.reset();
  return finding;
}

CellRecord cell_with(const std::vector<Finding>& findings) {
  CellRecord cell = literal_buggy();
  cell.results.clear();
  for (const Finding& finding : findings) {
    cell.results.push_back({.claim = finding.claim, .verdict = Verdict::violated});
    cell.results.back().findings = {finding};
  }
  return cell;
}

std::vector<std::string> brief_of(const CellRecord& cell) {
  std::vector<std::string> sentences;
  for (const ShownFinding& shown : brief_findings(cell)) sentences.push_back(shown.sentence);
  return sentences;
}

const Claim kGradientsApart = agree_across_ranks(Kind::gradient, Phase::pre_step);
const Claim kGradientsOff = equal_reference(Kind::gradient, Phase::pre_step);
const Claim kParametersApart = agree_across_ranks(Kind::parameter, Phase::post_step);
const Claim kParametersOff = equal_reference(Kind::parameter, Phase::post_step);

TEST(BriefFindings, AreOneForAllThatFollowsFromTheFirstWrongValue) {
  EXPECT_THAT(
      brief_of(cell_with({finding_about(kParametersOff, 1), finding_about(kGradientsOff, 1),
                          finding_about(kParametersApart, 1), finding_about(kGradientsApart, 1)})),
      ElementsAre("gradients differ between ranks: weight in step 1, 16 of 16 elements, by "
                  "up to 0.2; still in step 5 (max 1e-300); ranks 0,2,3 against rank 1; "
                  "also: parameters; both also differ from the reference"));
}

TEST(BriefFindings, NameWhatBreaksLaterWithItsStep) {
  EXPECT_THAT(
      brief_of(cell_with({finding_about(kGradientsApart, 1), finding_about(kParametersApart, 3)})),
      ElementsAre(EndsWith("; also: parameters from step 3 on")));
  EXPECT_THAT(
      brief_of(cell_with({finding_about(kGradientsApart, 1), finding_about(kGradientsOff, 1)})),
      ElementsAre(EndsWith("; they also differ from the reference")));
}

TEST(BriefFindings, OfRanksThatAgreeNameTheReference) {
  const Claim later = equal_reference(Kind::gradient, Phase::post_backward);
  EXPECT_THAT(
      brief_of(cell_with({finding_about(kParametersOff, 2), finding_about(later, 2)})),
      ElementsAre("gradients after backward differ from the reference: weight in step 2 on ranks "
                  "0,2,3,1, relative difference 0.333, tolerance 4.8e-07; ratio 1/2: averaged "
                  "twice over 2 ranks; also: parameters"));
}

TEST(BriefFindings, SayWhoseGradientItIs) {
  Finding off = finding_about(kGradientsOff, 1);
  off.attribution = GradientAttribution::own;
  EXPECT_THAT(brief_of(cell_with({finding_about(kGradientsApart, 1), off})),
              ElementsAre(HasSubstr("; each rank has its own gradient, never synchronised; they "
                                    "also differ from the reference")));
}

TEST(BriefFindings, CutAnErrorAndTellRanksThatRaisedItOnce) {
  std::vector<Finding> findings;
  for (int rank = 0; rank < 2; ++rank) {
    findings.push_back(
        literal_failure(rank, "raised an error", "Expected " + std::string(900, 'x'), "again"));
  }
  CellRecord cell = cell_with({findings[0]});
  cell.results[0].findings = findings;
  ASSERT_THAT(brief_of(cell), SizeIs(1));
  EXPECT_THAT(brief_of(cell)[0],
              AllOf(StartsWith("ranks 0,1 raised an error in step 2: Expected xxx"),
                    EndsWith("x [...]"), SizeIs(testing::Lt(500U))));
  EXPECT_THAT(failure_text(cell, screen(Verbosity::overview)), Not(HasSubstr("last output")))
      << "the output repeats the error";
}

/// The end of a place is its line.
TEST(BriefFindings, CutAnErrorBetweenWords) {
  std::string error = "at";
  for (int i = 0; i < 90; ++i) error += " train.py:16";
  CellRecord cell = cell_with({literal_failure(0, "raised an error", error, "again")});
  ASSERT_THAT(brief_of(cell), SizeIs(1));
  EXPECT_THAT(brief_of(cell)[0], AllOf(EndsWith(" train.py:16 [...]"), SizeIs(testing::Gt(380U))));
}

TEST(Width, IsKeptByEveryVerbosity) {
  for (const std::size_t width : {40, 80}) {
    for (const Verbosity verbosity : {Verbosity::verdict, Verbosity::overview}) {
      for (const std::string& line :
           lines_of(render_screen(literal_run(), screen(verbosity, width)))) {
        const bool is_to_be_copied = line.find("source: ") == 2 || line.find("again: ") == 2 ||
                                     line.starts_with("Details: ");
        const bool is_word = line.find(' ', line.find_first_not_of(' ')) == line.npos;
        if (!is_to_be_copied && !is_word) {
          EXPECT_LE(line.size(), width) << line;
        }
      }
    }
  }
}

TEST(Width, TooSmallForTimesLeavesThemOutAndShortensNames) {
  RunRecord run = as_expected(2);
  for (CellRecord& cell : run.cells) cell.cell.scenario += "-with-a-name-that-is-long";
  const std::string text = render_screen(run, screen(Verbosity::overview, 40));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("cell time")), HasSubstr("\nscenario-0-with-a-name-..")));
}

TEST(Folded, BreaksAtABlankThatFitsElseInAWord) {
  EXPECT_EQ(folded("ab  cd ef", 6, 2), "ab  cd\n  ef\n");
  EXPECT_EQ(folded("abcdefgh\nij", 3), "abc\ndef\ngh\nij\n");
  EXPECT_EQ(folded("a\xc3\xbc\xc3\xbc", 2), "a\n\xc3\xbc\n\xc3\xbc\n") << "no character is cut";
  EXPECT_EQ(folded("abcd", 2, 100), "ab\n c\n d\n");
}

TEST(Colour, IsOnlyThatOfTheWordsOfVerdicts) {
  Screen coloured = screen(Verbosity::overview);
  coloured.has_colour = true;
  EXPECT_THAT(render_screen(as_expected(2), coloured),
              EndsWith("\n\x1b[32mEverything is as expected\x1b[0m: 4 cells, 4 as expected.\n"));
  const std::string text = render_screen(literal_run(), coloured);
  EXPECT_THAT(text, AllOf(HasSubstr("\n\x1b[31mFAILED\x1b[0m: loss-on"),
                          HasSubstr("\n\x1b[33mUNDECIDED\x1b[0m: loss-on"),
                          HasSubstr("\x1b[31mNot everything is as expected\x1b[0m: 10 cells")));
  EXPECT_THAT(render_screen(literal_jobs(), coloured), HasSubstr(": \x1b[32min lockstep\x1b[0m: "));
}

TEST(Colour, IsInNoFileAndNotOfTheRecord) {
  EXPECT_THAT(render_console(literal_run()), Not(HasSubstr("\x1b")));
  Screen coloured = screen(Verbosity::full);
  coloured.has_colour = true;
  const std::string text = render_screen(literal_run(), coloured);
  EXPECT_THAT(text, HasSubstr("| \\x1b[31mred")) << "a rank's own escape is shown, not obeyed";
}

TEST(Colour, ChangesNoLineOtherwise) {
  for (const std::size_t width : {40, 80}) {
    Screen coloured = screen(Verbosity::overview, width);
    coloured.has_colour = true;
    std::string text = render_screen(literal_run(), coloured);
    for (const char* escape : {"\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"}) {
      for (std::size_t at = 0; (at = text.find(escape)) != text.npos;) {
        text.erase(at, std::string(escape).size());
      }
    }
    EXPECT_EQ(text, render_screen(literal_run(), screen(Verbosity::overview, width)));
  }
}

TEST(Sparkline, HasTheHighestBlockForTheLargestAndADotForZero) {
  EXPECT_EQ(sparkline({0, 1, 4, 8}, 10, Baseline::zero), "·▂▅█");
  EXPECT_EQ(sparkline({0, 0}, 10, Baseline::zero), "··");
  EXPECT_EQ(sparkline({29, 30, 31}, 10, Baseline::smallest), "▁▅█");
  EXPECT_EQ(sparkline({5, 5}, 10, Baseline::smallest), "██");
  EXPECT_EQ(sparkline({kNaN, 1, std::numeric_limits<double>::infinity()}, 10, Baseline::zero),
            "-█!");
  EXPECT_EQ(sparkline({}, 10, Baseline::zero), "");
}

TEST(Sparkline, OfALongRunKeepsItsFirstAndLastStep) {
  EXPECT_THAT(thinned(1000, 4), ElementsAre(0, 333, 666, 999));
  EXPECT_THAT(thinned(3, 4), ElementsAre(0, 1, 2));
  std::vector<double> values(1000, 1);
  values.front() = 0;
  values.back() = 8;
  EXPECT_EQ(sparkline(values, 4, Baseline::zero), "·▂▂█");
}

TEST(Sparkline, StandsBelowDriftAndNormsWhereTheScreenShowsIt) {
  TableLayout layout;
  EXPECT_THAT(table_text(published_drift(), layout), Not(HasSubstr("█")));
  layout.has_sparklines = true;
  EXPECT_THAT(table_text(published_drift(), layout),
              HasSubstr("\nBUGGY ▄▅▆▇█ up to 0.1326\nFIXED ····· 0\n"));
  EXPECT_THAT(table_text(published_norms(), layout),
              AllOf(HasSubstr("\nBUGGY norm  "), HasSubstr("\nFIXED drift ···· 0\n")));
  EXPECT_THAT(table_text(published_gradients(), layout), Not(HasSubstr("█")));
}

TEST(TableOfALongRun, IsThinnedWithItsFirstAndLastStepUnlessAllIsShown) {
  RunRecord run = literal_run_of({literal_buggy()});
  run.tables = {published_drift()};
  Table& table = run.tables[0];
  const Table::Row row = table.rows[0];
  table.rows.clear();
  for (int step = 1; step <= 1000; ++step) table.rows.push_back({step, row.entries});
  const std::string text = render_screen(run, screen(Verbosity::overview));
  EXPECT_THAT(text, AllOf(HasSubstr("\n   1 | "), HasSubstr("\n1000 | "),
                          HasSubstr("\n24 of 1000 steps; -vv shows all\n")));
  EXPECT_LT(lines_of(text).size(), 60U);
  EXPECT_THAT(render_screen(run, screen(Verbosity::full)), HasSubstr("\n 999 | "));
}

}  // namespace
}  // namespace lockstep
