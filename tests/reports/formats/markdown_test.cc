#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "reports/formats/markdown_parts.h"
#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_run.h"
#include "tests/reports/formats/nasty_run.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

constexpr std::size_t kLimit = 60'000;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

/// The report without code blocks and inline code: GitHub renders the rest as prose.
std::string prose_of(const std::string& report) {
  std::string prose;
  std::string fence;
  for (const std::string& line : lines_of(report)) {
    const auto begin = line.find_first_not_of(' ');
    const std::string text = begin == std::string::npos ? "" : line.substr(begin);
    if (!fence.empty()) {
      if (text == fence) fence.clear();
    } else if (text.starts_with("```")) {
      fence = text.substr(0, text.find_first_not_of('`'));
    } else if (!text.starts_with("source: `") && !text.starts_with("again: `") &&
               !text.starts_with("- `")) {
      prose += line + "\n";
    }
  }
  EXPECT_EQ(fence, "") << "a block of code has no end";
  return prose;
}

TEST(Markdown, BeginsWithTheVerdictAndTheDetectionTable) {
  EXPECT_THAT(render_markdown(literal_run()),
              StartsWith("## Lockstep: 5 of 10 cells as expected\n\n**Not everything is as "
                         "expected: 10 cells, 5 as expected, 2 FAILED, 1 NOT "
                         "FOUND, 1 UNDECIDED, 1 NOT RUN.**\n\n"
                         "| scenario | cells | found | as expected | FAILED | NOT FOUND | "
                         "UNDECIDED | NOT RUN |\n|---|---:|---:|---:|---:|---:|---:|---:|\n"
                         "| loss-on-unwrapped-module | 8 | 1 of 1 | 5 | 2 | 0 | 1 | 0 |\n"));
  EXPECT_THAT(
      render_markdown({}),
      StartsWith(
          "## Lockstep: 0 of 0 cells as expected\n\n**Nothing ran: 0 cells.**\n\n| scenario |"));
}

TEST(Markdown, TellsWhatIsWrongFirst) {
  const std::string text = render_markdown(literal_run());
  const auto place = [&](const std::string& part) {
    EXPECT_THAT(text, HasSubstr(part));
    return text.find(part);
  };
  EXPECT_LT(place("<summary>one-micro-batch"), place("Cost of a step"));
  EXPECT_LT(place("<summary>FAILED: through-wrapper (fixed, must be right): "),
            place("<summary>UNDECIDED: hidden (latent)"));
  EXPECT_LT(place("<summary>UNDECIDED: hidden"),
            place("<details><summary>bypass (buggy): as expected"));
  EXPECT_LT(place("<summary>one-micro-batch"), place("\n- all-reduce-each (fixed): as expected"));
  EXPECT_LT(place("\n- gradients do not agree"), place("<summary>Table 1"));
  EXPECT_EQ(count(text, "\n<details open><summary><b>"), 1U) << "the first failure is unfolded";
  EXPECT_THAT(text, HasSubstr("<summary><b>loss-on-unwrapped-module, 2 ranks</b>: FAILED: "
                              "all-reduce-each (fixed, must be right), repetition 3: ranks differ "
                              "from step 1 on: weight; 2 more not as expected</summary>"));
}

TEST(Markdown, EndsWithNotesMarginsAndEnvironment) {
  const std::string text = render_markdown(literal_run());
  EXPECT_THAT(text, HasSubstr("\n- note: 13 of 512 choices were run"));
  EXPECT_THAT(text, HasSubstr("\n- loss-on-unwrapped-module/all-reduce-each, 2 ranks: gradients "
                              "equal the reference: off by at most 15 % of the tolerance 3.6e-07 "
                              "(4 perturbed references)\n"));
  EXPECT_THAT(text, HasSubstr("\n- Lockstep 0.1.0, torch 2.11.0, g++ 12.2, digest "));
  EXPECT_LT(text.find("note: 13"), text.find("<summary>Margins"));
  EXPECT_LT(text.find("<summary>Margins"), text.find("<summary>Environment"));
}

TEST(Markdown, NeitherCallsNorLinksNorFormatsTextFromOutside) {
  const std::string prose = prose_of(render_markdown(nasty_run()));
  for (const char* alive :
       {"@o", " #1", "o#8", "GH-7", "www.", "://", ":tada:", "**b**", "_i_", "](", "```", "$1",
        "<script>", "<!--", "a@e", " 0123456789", "\x1b", "\xff", "\r"}) {
    EXPECT_THAT(prose, Not(HasSubstr(alive)));
  }
}

TEST(Markdown, KeepsItsOwnStructureWhateverTheText) {
  for (const std::string& text : {kNasty, std::string("\n```\n"),
                                  std::string("\n\n</details>\n# a\n"), std::string("````")}) {
    const std::string report = render_markdown(nasty_run(text));
    const std::string prose = prose_of(report);
    EXPECT_EQ(count(prose, "<details"), count(prose, "</details>"));
    EXPECT_EQ(count("\n" + prose, "\n<details open><summary><b>"), 1U);
    EXPECT_EQ(count("\n" + prose, "\n<details><summary><b>"), 1U);
    EXPECT_EQ(count("\n" + prose, "\n# "), 0U);
    EXPECT_LT(report.size(), kLimit);
  }
}

/// A run of `cells` cells, every second one missed, with `bytes` of text each.
RunRecord long_run(int cells, std::size_t bytes) {
  RunRecord run;
  for (int i = 0; i < cells; ++i) {
    run.cells.push_back(i % 2 == 0 ? literal_buggy() : literal_false_alarm());
    run.cells.back().cell.variant = "variant-" + std::to_string(i);
    run.cells.back().results[0].findings[0].sentence += std::string(bytes, 'x');
  }
  return run;
}

TEST(Markdown, LeavesOutWholeDetailsAndSaysHowMany) {
  const std::string text = render_markdown(long_run(200, 500));
  EXPECT_LT(text.size(), kLimit);
  EXPECT_GT(text.size(), kLimit / 2) << "what has room is told";
  const std::size_t told = count(text, "<summary>FAILED: variant-");
  EXPECT_THAT(text, HasSubstr("\n\n" + std::to_string(201 - told) +
                              " more in `report.html` (`lockstep report DIR --format html`): " +
                              std::to_string(200 - told) + " details, 1 other part.\n"));
  EXPECT_EQ(count(text, "<details"), count(text, "</details>"));
  EXPECT_EQ(count(text, "(buggy)"), 0U) << "failures go first";
  EXPECT_THAT(render_markdown(long_run(20, 500)), Not(HasSubstr(" more in `report.html`")));
}

TEST(MarkdownParts, KeepNoPieceWithoutThePieceThatOpensItsFold) {
  const std::string long_text(100, 'x');
  Pieces pieces{{Part::overview, "a"},      {Part::wrong, long_text, 1, ")"}, {Part::wrong, "b", 1},
                {Part::wrong, "(", 2, ")"}, {Part::detail, "c", 2},           {Part::extra, "d"}};
  const Pieces left_out = leave_out(pieces, 50);
  EXPECT_EQ(text_of(pieces), "a(c)d");
  EXPECT_EQ(
      sentence_about(left_out),
      "2 more in `report.html` (`lockstep report DIR --format html`): 1 section, 1 detail.\n\n");
}

TEST(MarkdownParts, AreLeftOutFromTheLastKindOn) {
  Pieces pieces{{Part::extra, "costs"}, {Part::table, "table"}, {Part::wrong, "wrong"}};
  leave_out(pieces, 10);
  EXPECT_EQ(text_of(pieces), "tablewrong") << "costs and margins go first";
  leave_out(pieces, 5);
  EXPECT_EQ(text_of(pieces), "wrong");
}

TEST(Markdown, CutsTextsThatAreTooLong) {
  const std::string text = render_markdown(long_run(1, 1'000'000));
  EXPECT_THAT(text, HasSubstr("xxx &#91;...&#93;\n"));
  EXPECT_LT(text.size(), 10'000U);
}

TEST(Markdown, ShowsTheEndOfALongOutput) {
  RunRecord run;
  run.cells = {literal_missed()};
  run.cells[0].results[1].findings[1].failure->last_output =
      std::string(100'000, 'x') + "\nthe reason";
  const std::string text = render_markdown(run);
  EXPECT_THAT(text, HasSubstr("x\n  the reason\n  ```\n"));
  EXPECT_LT(text.size(), 10'000U);
}

TEST(Markdown, CountsTheFindingsThatACellHasNoRoomFor) {
  RunRecord run;
  run.cells = {literal_missed()};
  auto& findings = run.cells[0].results[1].findings;
  findings.assign(64, findings[1]);
  for (Finding& finding : findings) finding.failure->last_output = std::string(2'000, 'x');
  EXPECT_THAT(render_markdown(run), HasSubstr(" more in `report.html`\n"));
}

TEST(Markdown, StaysBelowTheLimitWhateverIsHuge) {
  const std::vector<std::string> characters{"a", "@a", "`", "_", "$", "\n", "\x1b", "\xff", "::a:"};
  for (const std::string& character : characters) {
    std::string huge;
    while (huge.size() < 8'000) huge += character;
    EXPECT_LT(render_markdown(nasty_run(huge)).size(), kLimit) << character;
  }
  RunRecord wide = literal_run();
  for (int i = 0; i < 3000; ++i) wide.tables[0].rows.push_back(wide.tables[0].rows[0]);
  wide.notes.assign(1000, std::string(1000, 'n'));
  for (int i = 0; i < 1000; ++i) {
    wide.cells.push_back(literal_buggy());
    wide.cells.back().cell.scenario = "scenario-" + std::to_string(i);
  }
  EXPECT_LT(render_markdown(wide).size(), kLimit);
}

}  // namespace
}  // namespace lockstep
