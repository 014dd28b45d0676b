// Reports of extreme records, as the programs read them that they are made for.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/formats/annotations.h"
#include "reports/formats/renderer.h"
#include "tests/command.h"
#include "tests/reports/formats/extreme_runs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::size_t kComment = 60'000;
constexpr std::size_t kJobSummary = 900 * 1024;

const std::string kTools = LOCKSTEP_SOURCE_DIR "/tests/reports/formats/";

/// Reports of one format, in files.
class Consumers : public testing::Test {
 protected:
  void write(const std::string& format, int findings) {
    for (const auto& [name, run] : extreme_runs(findings)) {
      files_ += " " + (folder_.path() / name).string();
      write_text(folder_.path() / name, find_renderer(format).render(run));
    }
  }
  void write(const std::string& name, const std::string& text) {
    files_ = " " + (folder_.path() / name).string();
    write_text(folder_.path() / name, text);
  }

  Outcome read_by(const std::string& command) const {
    return run_shell("/usr/bin/python3 " + kTools + command + files_);
  }
  Outcome read_as_page(std::size_t most) const {
    return read_by(fmt::format("validate_markdown.py {}", most));
  }

  TemporaryFolder folder_;
  std::string files_;
};

/// cmark-gfm, as it is part of GitHub.
class GithubMarkdown : public Consumers {
 protected:
  void SetUp() override {
    if (run_shell("/usr/bin/python3 -c 'import cmarkgfm'").status != 0) {
      GTEST_SKIP() << "Python's cmarkgfm is missing (Debian package python3-cmarkgfm)";
    }
  }
};

TEST_F(GithubMarkdown, ShowsEveryCommentAsItIsMeant) {
  write("markdown", 10'000);
  const Outcome read = read_as_page(kComment);
  EXPECT_EQ(read.status, 0) << read.out << read.err;
}

TEST_F(GithubMarkdown, ShowsEverySummaryOfAJobAsItIsMeant) {
  write("github", 10'000);
  const Outcome read = read_as_page(kJobSummary);
  EXPECT_EQ(read.status, 0) << read.out << read.err;
}

TEST_F(GithubMarkdown, IsReadStrictly) {
  RunRecord run = job_of_ranks(2);
  run.jobs[0].tables = {drift_over({0, 1e-7, 2e-7, 5e-7})};
  const std::string page = render_markdown(run);
  const auto complaint = [&](const std::string& text, const std::string& instead) {
    std::string planted = page;
    planted.replace(planted.find(text), text.size(), instead);
    write("page.md", planted);
    return read_as_page(kComment).out;
  };
  EXPECT_EQ(complaint("##", "##"), "valid\n");
  EXPECT_THAT(complaint("</details>", ""), HasSubstr("open at the end"));
  EXPECT_THAT(complaint("<summary>", "<b>"), HasSubstr("closes something else"));
  EXPECT_THAT(complaint("ranks differ", "@octocat"), HasSubstr("is mentioned"));
  EXPECT_THAT(complaint("ranks differ", "https://example.org"), HasSubstr("<a> is not"));
  EXPECT_THAT(complaint("ranks differ", "<!-- x -->"), HasSubstr("a hidden comment"));
  EXPECT_THAT(complaint("## ", "## a\n\n## "), HasSubstr("2 titles"));
  EXPECT_THAT(complaint("line [0.000, ", "line [1e-07, "), HasSubstr("mermaid does not read"));
  EXPECT_THAT(complaint("\n\n<details", "\n\n" + std::string(kComment, 'x') + "\n\n<details"),
              HasSubstr("bytes"));
}

TEST_F(Consumers, OfTheSummaryFindItsSchema) {
  if (run_shell("/usr/bin/python3 -c 'import jsonschema'").status != 0) {
    GTEST_SKIP() << "Python's jsonschema is missing (Debian package python3-jsonschema)";
  }
  write("summary", 100);
  const Outcome read =
      read_by("validate_summary.py " LOCKSTEP_SOURCE_DIR "/reports/formats/summary.schema.json");
  EXPECT_EQ(read.status, 0) << read.out << read.err;
}

TEST(ExtremeRuns, AreJsonInBothJsonFormats) {
  for (const auto& [name, run] : extreme_runs(100)) {
    for (const char* format : {"json", "summary"}) {
      EXPECT_TRUE(nlohmann::json::accept(find_renderer(format).render(run))) << format << name;
    }
  }
}

TEST(ExtremeRuns, HaveTenAnnotationsAtMostOnALineEach) {
  for (const auto& [name, run] : extreme_runs(100)) {
    const std::vector<std::string> lines = lines_of(annotations(run));
    EXPECT_LE(lines.size(), kMostAnnotations) << name;
    for (const std::string& line : lines) {
      EXPECT_TRUE(line.starts_with("::error ") || line.starts_with("::warning ")) << line;
    }
  }
}

/// The same in which a comment is full and the summary of a job is not.
TEST(ExtremeRuns, FillTheRoomAndCountTheRest) {
  const RunRecord run = run_with_findings(2'000);
  const std::string comment = render_markdown(run);
  EXPECT_GT(comment.size(), kComment * 9 / 10);
  EXPECT_LE(comment.size(), kComment);
  EXPECT_THAT(comment, HasSubstr(" more in report.html |"));
  EXPECT_THAT(comment, HasSubstr(" more in `report.html` (`lockstep report DIR --format html`): "));
  EXPECT_THAT(comment, HasSubstr("scenario-0, 2 ranks</b>: FAILED: variant-0 "));
  const std::string summary = render_github(run);
  EXPECT_GT(summary.size(), kJobSummary * 9 / 10);
  EXPECT_LE(summary.size(), kJobSummary);
}

/// The chart in the page of a job; empty: none.
std::string chart_of(const std::vector<double>& drift) {
  RunRecord run = job_of_ranks(2);
  run.jobs[0].tables = {drift_over(drift)};
  const std::string page = render_markdown(run);
  const auto begin = page.find("```mermaid");
  return begin == page.npos ? "" : page.substr(begin, page.find("```\n", begin + 3) - begin);
}

TEST(DriftChart, HasTheValuesInAPowerOfTen) {
  EXPECT_EQ(chart_of({0, 0, 3e-7, 4.5e-6}),
            "```mermaid\nxychart-beta\n  title \"Largest difference between ranks\"\n"
            "  x-axis \"step\" [1, 2, 3, 4]\n  y-axis \"drift, in units of 1e-6\" 0 --> 5\n"
            "  line [0.000, 0.000, 0.300, 4.500]\n");
}

TEST(DriftChart, HasLogarithmsOfAWideSpan) {
  EXPECT_THAT(chart_of({1e-8, 1e-4, 0.5}), HasSubstr("\"log10 of the drift\" -8 --> 0\n  line "
                                                     "[-8.000, -4.000, -0.301]"));
}

TEST(DriftChart, IsLeftOutIfItShowsNothing) {
  EXPECT_EQ(chart_of({0, 0, 0, 0}), "");
  EXPECT_EQ(chart_of({0, 1}), "");
  EXPECT_EQ(chart_of({kNaN, kNaN, kNaN, 1}), "");
  EXPECT_EQ(chart_of({0, 1e-310, 0}), "");
}

TEST(DriftChart, LeavesOutWhatWasNotMeasuredAndThinsLongTrainings) {
  EXPECT_THAT(chart_of({kNaN, 1, 2, 3}), HasSubstr("[2, 3, 4]"));
  const std::string chart = chart_of(std::vector<double>(5000, 2));
  EXPECT_THAT(chart, HasSubstr("[1, 218, "));
  EXPECT_THAT(chart, HasSubstr(", 5000]"));
  EXPECT_LT(chart.size(), 600U);
}

TEST(DriftChart, SaysThatItIsEstimated) {
  RunRecord run = job_of_ranks(2);
  Table table = drift_over({0, kNaN, kNaN});
  table.rows[1].entries[0].estimate = 0.1;
  table.rows[2].entries[0].estimate = 0.2;
  run.jobs[0].tables = {table};
  EXPECT_THAT(render_markdown(run), HasSubstr("Norm of the difference, estimated, between ranks"));
}

}  // namespace
}  // namespace lockstep
