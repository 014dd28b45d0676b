#include "reports/formats/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "reports/formats/renderer.h"
#include "reports/formats/screen.h"
#include "tests/command.h"
#include "tests/reports/formats/literal_matrix.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

CellRecord right(const std::string& variant, Role role, const std::vector<AxisValue>& axes) {
  return matrix_cell(variant, role, axes, literal_outcome(SymptomKind::right, "right"));
}

TEST(Matrix, IsWhereAVariantWasRunWithMoreThanOneChoice) {
  const auto sections_with = [](const std::vector<AxisValue>& second) {
    RunRecord run =
        literal_run_of({right("a", Role::buggy, {{"k", "1"}}), right("a", Role::buggy, second)});
    std::vector<bool> matrices;
    for (const Section& section : sections_of(run)) matrices.push_back(section.is_matrix);
    return matrices;
  };
  EXPECT_THAT(sections_with({{"k", "2"}}), testing::ElementsAre(true));
  EXPECT_THAT(sections_with({{"k", "1"}}), testing::ElementsAre(false));
}

TEST(Matrix, IsNotWhereVariantsDependOnDifferentAxes) {
  const RunRecord run = literal_run_of(
      {right("a", Role::buggy, {{"k", "1"}}), right("b", Role::fixed, {{"k", "1"}, {"m", "1"}})});
  for (const Section& section : sections_of(run)) EXPECT_FALSE(section.is_matrix);
}

TEST(Section, NamesTheDeviceOfItsCellsUnlessItIsTheCpu) {
  RunRecord run = literal_run_of({right("a", Role::buggy, {{"m", "1"}})});
  EXPECT_EQ(sections_of(run).at(0).title, "frozen-tower, 2 ranks, m=1");
  run.cells[0].cell.device = DeviceKind::cuda;
  EXPECT_EQ(sections_of(run).at(0).title, "frozen-tower, 2 ranks on cuda, m=1");
}

/// Regardless of their axes; the title names the values that are not defaults (k=2 and view=off
/// are).
TEST(Section, HoldsAllVariantsOfAScenarioInAWorld) {
  const RunRecord run =
      literal_run_of({right("a", Role::buggy, {{"k", "2"}, {"view", "off"}}),
                      right("b", Role::fixed, {{"k", "2"}, {"m", "1"}}),
                      right("c", Role::fixed, {}), right("d", Role::fixed, {{"m", "1"}})});
  const std::vector<Section> sections = sections_of(run);
  ASSERT_THAT(sections, SizeIs(1));
  EXPECT_THAT(sections[0].cells, SizeIs(4));
  EXPECT_EQ(sections[0].title, "frozen-tower, 2 ranks, m=1");
}

TEST(Matrix, IsToldWorldByWorld) {
  RunRecord run =
      literal_run_of({right("a", Role::buggy, {{"k", "1"}}), right("a", Role::buggy, {{"k", "2"}}),
                      right("a", Role::buggy, {{"k", "1"}})});
  run.cells[2].cell.world_size = 4;
  const std::vector<Section> sections = sections_of(run);
  ASSERT_THAT(sections, SizeIs(2));
  EXPECT_TRUE(sections[0].is_matrix);
  EXPECT_EQ(sections[0].title, "frozen-tower, 2 ranks");
  EXPECT_FALSE(sections[1].is_matrix);
  EXPECT_EQ(sections[1].title, "frozen-tower, 4 ranks, k=1");
}

TEST(Matrix, NamesOnlyWhatIsNoDefaultAndNotShared) {
  const RunRecord run =
      literal_run_of({right("a", Role::buggy, {{"k", "2"}, {"m", "x"}, {"view", "off"}}),
                      right("a", Role::buggy, {{"k", "3"}, {"m", "x"}, {"view", "off"}})});
  const Section section = sections_of(run).at(0);
  const auto variants = matrix_lines(section);
  ASSERT_THAT(variants, SizeIs(1));
  EXPECT_EQ(variants[0].title, "a (buggy), m=x, 2 cells");
  ASSERT_THAT(variants[0].lines, SizeIs(2));
  EXPECT_EQ(line_text(variants[0], variants[0].lines[0]), "default values: right");
  EXPECT_EQ(line_text(variants[0], variants[0].lines[1]), "k=3: right");
  EXPECT_THAT(matrix_footnote(section), HasSubstr("Defaults, left out above: k=2, view=off."));
}

TEST(Matrix, HasALineForEveryCellButThoseOfAReferenceThatIsRight) {
  RunRecord run = literal_run_of(
      {right("a", Role::reference, {{"k", "1"}}), right("a", Role::reference, {{"k", "2"}})});
  const auto lines = [&] {
    const Section section = sections_of(run).at(0);
    return matrix_lines(section).at(0).lines;
  };
  EXPECT_THAT(lines(), SizeIs(1));
  run.cells[1].symptom = literal_outcome(SymptomKind::raised, "raised in step 1: no");
  EXPECT_THAT(lines(), SizeIs(2));
  for (CellRecord& cell : run.cells) cell.cell.role = Role::fixed;
  EXPECT_THAT(lines(), SizeIs(2));
}

TEST(Matrix, CountsRepetitionsAndTellsTheOneThatIsAnother) {
  RunRecord run = literal_run_of(
      {right("a", Role::buggy, {{"k", "1"}}), right("a", Role::buggy, {{"k", "3"}}),
       right("a", Role::buggy, {{"k", "1"}}), right("a", Role::buggy, {{"k", "3"}})});
  run.cells[2].cell.repetition = run.cells[3].cell.repetition = 2;
  run.cells[3].verdict = CellVerdict::missed;
  const std::string text = render_console(run);
  EXPECT_THAT(text, HasSubstr("\n    k=1: right; 2 of 2 repetitions as expected\n"));
  EXPECT_THAT(text, HasSubstr("\n!   k=3, repetition 2: FAILED: right\n"));
}

TEST(Matrix, TellsFindingsOnlyOfCellsThatAreNotAsExpected) {
  RunRecord run = literal_matrix();
  run.cells.pop_back();
  run.cells[0].results[0].findings = {literal_divergence()};
  run.cells[0].results[0].findings[0].sentence = "As declared.";
  for (const auto& render : {render_console, render_markdown}) {
    const std::string text = render(run);
    EXPECT_THAT(text, Not(HasSubstr("As declared.")));
    EXPECT_THAT(text, HasSubstr("gradients do not agree across ranks: first in step 1"));
  }
}

TEST(Matrix, LeavesCostAndValuesToTheOtherFormats) {
  RunRecord run = literal_matrix();
  run.cells.pop_back();
  run.tables.erase(run.tables.begin());
  for (const auto& render : {render_console, render_markdown}) {
    EXPECT_THAT(unwrapped(render(run)),
                AllOf(Not(HasSubstr("Cost of a step, on one rank")), Not(HasSubstr("step |")),
                      HasSubstr("csv and json reports")));
  }
  EXPECT_THAT(render_csv(run),
              AllOf(HasSubstr("\ncost,frozen-tower"), HasSubstr("\nvalue,frozen")));
}

TEST(Matrix, StaysWithinItsWidthAndMarksInTheFirstColumn) {
  Screen screen;
  screen.width = 80;
  std::istringstream text(render_screen(literal_matrix(), screen));
  int marks = 0;
  for (std::string line; std::getline(text, line) && !line.starts_with("FAILED: thawed");) {
    EXPECT_LE(line.size(), 80U) << line;
    if (line.starts_with("!   ") || line.starts_with("?   ")) ++marks;
  }
  EXPECT_EQ(marks, 2);
}

TEST(Matrix, OfAThousandCellsFitsIntoAComment) {
  RunRecord run;
  for (int variant = 0; variant < 20; ++variant) {
    for (int k = 0; k < 100; ++k) {
      run.cells.push_back(matrix_cell(
          "variant-" + std::to_string(variant), Role::buggy,
          {{"k", std::to_string(k)}, {"gradient_as_bucket_view", "on"}},
          literal_outcome(SymptomKind::raised, "raised in step 1: " + std::string(200, 'x'))));
    }
  }
  run.cells[1999].verdict = CellVerdict::false_alarm;
  const std::string text = render_markdown(run);
  EXPECT_LT(text.size(), 65536U);
  EXPECT_THAT(text, HasSubstr("lists of symptoms"));
  EXPECT_THAT(
      text,
      HasSubstr("FAILED: variant-19 (buggy, must be right), k=99, gradient_as_bucket_view=on"));
}

TEST(Matrix, LetsNoControlCharacterThrough) {
  RunRecord run = literal_matrix();
  run.cells[0].symptom.text = "raised in step 1: \x1b[31mred\r<b>@someone</b>\x07";
  for (const char c : render_console(run)) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  }
  EXPECT_THAT(render_markdown(run), AllOf(Not(HasSubstr("<b>@")), Not(HasSubstr("@someone"))));
}

TEST(Matrix, OfARecordThatWasNeverJudgedSaysItsVerdicts) {
  RunRecord run = literal_run_of(
      {right("a", Role::buggy, {{"k", "1"}}), right("a", Role::buggy, {{"k", "2"}})});
  for (CellRecord& cell : run.cells) cell.symptom = {};
  EXPECT_THAT(render_console(run), HasSubstr("    k=1: as expected\n"));
}

}  // namespace
}  // namespace lockstep
