#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "reports/formats/renderer.h"
#include "reports/page/finding_pages.h"
#include "reports/page/html_text.h"
#include "tests/reports/formats/literal_charts.h"
#include "tests/reports/formats/literal_jobs.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(HtmlReport, ForbidsTheNetworkAndEveryScriptButItsOwn) {
  const std::string page = render_html(literal_run());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_EQ(count_of(page, "<script"), 2);
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr(" style=")));
  EXPECT_THAT(page, Not(HasSubstr(" onload=")));
}

TEST(HtmlReport, IsAPureFunctionOfTheRecord) {
  EXPECT_EQ(render_html(literal_run()), render_html(literal_run()));
}

TEST(HtmlReport, ShowsAFindingWithEverythingThatIdentifiesIt) {
  RunRecord run = literal_jobs();
  run.jobs = {run.jobs[1]};
  Finding& finding = run.jobs[0].results[0].findings[0];
  finding.kind = FindingKind::scaled_by_world_size;
  finding.multiple = {2, 1e-6, {{CauseOfRatio::summed_over_ranks, 2}}};
  const std::string page = render_html(run);
  EXPECT_THAT(page, HasSubstr("<dt>First step</dt><dd>1</dd>"));
  EXPECT_THAT(page, HasSubstr("<dt>First tensor</dt><dd><code>weight</code></dd>"));
  EXPECT_THAT(page, HasSubstr("2: summed over 2 ranks, never averaged"));
  EXPECT_THAT(page, HasSubstr(in_html(meaning_of(FindingKind::scaled_by_world_size))));
  EXPECT_THAT(page, HasSubstr("lockstep explain scaled-by-world-size"));
}

TEST(HtmlReport, GivesTheMeaningOfEveryKindInOneParagraph) {
  for (const std::string_view kind : Names<FindingKind>::values) {
    const std::string meaning = meaning_of(*parse<FindingKind>(kind));
    EXPECT_GT(meaning.size(), 20U) << kind;
    EXPECT_THAT(meaning, Not(HasSubstr("#"))) << kind;
    EXPECT_EQ(meaning.back(), '.') << kind;
  }
}

TEST(HtmlReport, HasTheNumbersOfItsChartsInTables) {
  const std::string page = render_html(literal_charted_job(literal_charts(3, 20, 5), 3));
  EXPECT_THAT(page,
              HasSubstr("<tr><th scope=\"row\" class=\"n\">17<td>5<td>1.017<td>1.027<td>1.037"));
  EXPECT_THAT(page, HasSubstr("<tr><th scope=\"row\" class=\"n\">1<td>0\n"));
  EXPECT_THAT(page, HasSubstr("<tr><th scope=\"row\" class=\"n\">17<td>1.7e-05\n"));
}

TEST(HtmlReport, SaysWhatWasThinned) {
  Charts charts = literal_charts(2, 10, 5);
  EXPECT_THAT(render_html(literal_charted_job(charts, 2)), Not(HasSubstr("observed steps,")));
  charts.series.observed = 1000000;
  charts.series.merged_changes = 12345;
  charts.series.ranks_left_out = 4094;
  const std::string page = render_html(literal_charted_job(charts, 2));
  EXPECT_THAT(page, HasSubstr("Of 1000000 observed steps, 10 are shown"));
  EXPECT_THAT(page, HasSubstr("Agreement changed 12345 times"));
  EXPECT_THAT(page, HasSubstr("4094 ranks have no line of their own"));
}

TEST(HtmlReport, ShowsOneDifferingStepOfAMillionInMapAndTable) {
  Charts charts = literal_charts(2, 1000, 1000);
  charts.agreement.differing = {literal_course("layers.17.weight", 637, 637)};
  const std::string page = render_html(literal_charted_job(charts, 2));
  EXPECT_THAT(page, HasSubstr("<title>step 637: ranks differ</title>"));
  EXPECT_THAT(page, HasSubstr("width=\"6.25\""));  // wide enough to be seen
  EXPECT_THAT(page, HasSubstr("<td>637<td>637<td>1<td>"));
  EXPECT_THAT(page, HasSubstr("1 of 1000 compared tensors ever differ"));
}

/// A rank that hangs has no value in the last step.
TEST(HtmlReport, SaysWhereTensorsWereCompared) {
  const std::string page = render_html(literal_charted_job(literal_charts(2, 3, 5), 2));
  EXPECT_THAT(page, HasSubstr("Ranks agree on all 5 compared tensors, in every step in which two "
                              "or more observed them."));
}

TEST(HtmlReport, DoesNotSayThatRanksAgreeIfTheyDifferInATensorBesideTheMap) {
  RunRecord run = literal_charted_job(literal_charts(2, 3, 5), 2);
  ClaimResult& buffers = run.jobs[0].results.emplace_back();
  buffers.claim = agree_across_ranks(Kind::buffer, Phase::pre_forward);
  buffers.verdict = Verdict::violated;
  buffers.findings.emplace_back().claim = buffers.claim;
  EXPECT_THAT(render_html(run), Not(HasSubstr("Ranks agree on all")));
}

TEST(HtmlReport, HasNoMapOfASingleRank) {
  EXPECT_THAT(render_html(literal_charted_job(literal_charts(1, 3, 0), 1)),
              Not(HasSubstr("Ranks agree")));
}

TEST(HtmlReport, MarksTheFirstMismatchInItsLanes) {
  Charts charts = literal_charts(2, 3, 5);
  charts.lanes = literal_lanes();
  RunRecord run = literal_charted_job(charts, 2);
  run.jobs[0].mismatch = literal_mismatch_of_lanes();
  const std::string page = render_html(run);
  EXPECT_THAT(page, HasSubstr("<th scope=\"col\" class=\"marked\">4<br>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"wrong marked\"><b>never called it</b></td>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"open marked\">allreduce sum float32 [4]<br><b>waits"));
}

TEST(HtmlReport, LinksToASourceOfAKnownCommitOnly) {
  RunRecord run = literal_run();
  EXPECT_THAT(render_html(run), Not(HasSubstr("/blob/")));
  for (CellRecord& cell : run.cells) cell.source = "scenarios/a/b.cc:41";
  run.environment.variables = {{"GITHUB_SERVER_URL", "https://github.com"},
                               {"GITHUB_REPOSITORY", "a/b"},
                               {"GITHUB_SHA", "0123"}};
  EXPECT_THAT(render_html(run),
              HasSubstr("href=\"https://github.com/a/b/blob/0123/scenarios/a/b.cc#L41\""));
  run.environment.variables[0].second = "javascript:alert(1)//";
  EXPECT_THAT(render_html(run), Not(HasSubstr("href=\"javascript")));
}

TEST(HtmlReport, CountsOneComparisonAsOne) {
  RunRecord run = literal_jobs();
  run.jobs.resize(1);
  run.jobs[0].results.resize(1);
  run.jobs[0].results[0].comparisons = 1;
  EXPECT_THAT(render_html(run), HasSubstr("with 1 comparison of tensors:"));
}

TEST(HtmlReport, IsReadableWithoutStepsRanksOrFindings) {
  EXPECT_THAT(render_html(RunRecord{}), HasSubstr("There are no findings."));
  EXPECT_THAT(render_html(literal_charted_job(Charts{}, 1)), HasSubstr("</html>"));
  const std::string page = render_html(literal_charted_job(literal_charts(1, 1, 0), 1));
  EXPECT_THAT(page, HasSubstr("<td>1.001"));
}

TEST(HtmlReport, ShowsGapsAndInfinities) {
  Charts charts = literal_charts(2, 3, 5);
  charts.series.norms[0].values = {kNan, kInfinity, -kInfinity};
  const std::string page = render_html(literal_charted_job(charts, 2));
  EXPECT_THAT(page, HasSubstr(">1<td>5<td>-<td>1.011\n"));
  EXPECT_THAT(page, HasSubstr(">2<td>5<td>inf<td>1.012\n"));
  EXPECT_THAT(page, HasSubstr(">3<td>5<td>-inf<td>1.013\n"));
}

/// A watched job stores few values.
TEST(HtmlReport, SaysHowFarTheLastStepGoesIfItIsKnown) {
  RunRecord run = literal_jobs();
  run.jobs = {run.jobs[1]};
  Finding& finding = run.jobs[0].results[0].findings[0];
  finding.last_step = finding.step + 5;
  finding.places = 30;
  finding.last_worst_difference = 0.25;
  const std::string until = fmt::format("until step {}", finding.last_step);
  EXPECT_THAT(render_html(run), HasSubstr(until + ", by up to 0.25 there; 30 (step"));
  finding.last_worst_difference = 0;
  EXPECT_THAT(render_html(run), HasSubstr(until + "; 30 (step"));
}

TEST(HtmlReport, ListsTenThousandFindingsAndShowsTheFirstInFull) {
  RunRecord run = literal_jobs();
  run.jobs = {run.jobs[1]};
  const Finding finding = run.jobs[0].results[0].findings[0];
  run.jobs[0].results[0].findings.assign(10000, finding);
  const std::string page = render_html(run);
  EXPECT_EQ(count_of(page, "<article"), 200);
  EXPECT_GE(count_of(page, "<tr>"), 10000);
  EXPECT_LT(page.size(), 5U << 20);
}

TEST(HtmlReport, OfManyRanksAndStepsStaysSmall) {
  Charts charts = literal_charts(64, 1000, 500);
  for (int i = 0; i < 500; ++i) {
    charts.agreement.differing.push_back(
        literal_course(fmt::format("model.layers.{}.mlp.gate_proj.weight", i), 1 + i, 1000));
  }
  EXPECT_LT(render_html(literal_charted_job(charts, 64)).size(), 5U << 20);
}

TEST(HtmlReport, LinksTheCallOfAJobThatDoesNotMatch) {
  RunRecord run = literal_jobs();
  run.jobs[1].mismatch = literal_mismatch();
  run.jobs[1].mismatch->rows[1].calls[1] = {"barrier", "train.py:7", false, 0};
  EXPECT_THAT(render_html(run), HasSubstr("<code>train.py:7</code>"));
  run.environment.variables = {{"GITHUB_REPOSITORY", "owner/name"},
                               {"GITHUB_SERVER_URL", "https://github.com"},
                               {"GITHUB_SHA", "0123456789abcdef0123456789abcdef01234567"}};
  const std::string address =
      "https://github.com/owner/name/blob/0123456789abcdef0123456789abcdef01234567/train.py#L7";
  EXPECT_THAT(render_html(run), HasSubstr("<a href=\"" + address + "\""));
  run.jobs[1].mismatch->rows[1].calls[1].site = "/elsewhere/train.py:7";
  EXPECT_THAT(render_html(run), Not(HasSubstr("<a href=\"https://github.com/owner")));
}

TEST(RanksInShort, HasRangesAndALimit) {
  EXPECT_EQ(ranks_in_short({3}), "rank 3");
  EXPECT_EQ(ranks_in_short({0, 1}), "ranks 0, 1");
  EXPECT_EQ(ranks_in_short({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
  EXPECT_EQ(ranks_in_short({0, 2, 4, 6}, 2), "ranks 0, 2 and 2 more");
}

}  // namespace
}  // namespace lockstep
