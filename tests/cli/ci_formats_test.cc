// Reports for CI services: what `report` writes in a step of GitHub Actions, one report of several
// runs, and the exit statuses of `--bisect`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/record/run_folder.h"
#include "reports/formats/renderer.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/pack/stored_job.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A stored job whose ranks differ, in `run`, and a run of nothing in `empty`.
class CiFormats : public testing::Test {
 protected:
  CiFormats() {
    fs::create_directory(job_.beside("empty"));
    save_record(job_.beside("empty"), RunRecord{});
  }

  /// `before`: shell words, such as variables.
  Outcome lockstep(const std::string& arguments, const std::string& before = "") const {
    return run_shell(fmt::format("cd {} && unset GITHUB_ACTIONS GITHUB_STEP_SUMMARY; {} {} {}",
                                 job_.beside("").string(), before, kLockstep, arguments));
  }
  std::string summary() const { return text_of(job_.beside("summary.md")); }

  StoredJob job_;
};

constexpr const char* kStep = "GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=summary.md";

TEST_F(CiFormats, OfGithubIsAPageElsewhere) {
  const Outcome report = lockstep("report run --format github");
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(report.out, AllOf(StartsWith("## Lockstep: FAILED: "), Not(HasSubstr("::error"))));
}

TEST_F(CiFormats, OfGithubIsTheSummaryOfAStepAndAnnotations) {
  const std::string page = lockstep("report run --format github").out;
  const Outcome report = lockstep("report run --format github", kStep);
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(report.out, StartsWith("::error "));
  EXPECT_EQ(lines_of(report.out).size(), 1U) << report.out;
  EXPECT_EQ(summary(), page);
  lockstep("report run --format github", kStep);
  EXPECT_EQ(summary(), page + "\n" + page) << "a step may have several reports";
}

TEST_F(CiFormats, OfGithubAnnotateNoKnownFinding) {
  write_text(job_.beside("known"), lockstep("report run --format keys").out);
  const Outcome report = lockstep("report run --format github --known known", kStep);
  EXPECT_EQ(report.out.find("::error"), report.out.npos) << report.out;
  EXPECT_THAT(summary(), StartsWith("## Lockstep: FAILED: ")) << "the page shows all findings";
}

TEST_F(CiFormats, OfGithubHaveNoAnnotationsOutsideOfAStep) {
  const Outcome report = lockstep("report run --format github", "GITHUB_STEP_SUMMARY=summary.md");
  EXPECT_EQ(report.out, "");
  EXPECT_THAT(summary(), StartsWith("## Lockstep: "));
}

TEST_F(CiFormats, KeepTheStatusIfTheSummaryCannotBeWritten) {
  for (const char* place : {"nowhere/summary.md", "/dev/full", "."}) {
    const Outcome report =
        lockstep("report run --format github", fmt::format("GITHUB_STEP_SUMMARY={}", place));
    EXPECT_EQ(report.status, 1) << place;
    EXPECT_THAT(report.err,
                AllOf(StartsWith("lockstep: the summary of the job was not written to "),
                      HasSubstr(place)));
  }
}

TEST_F(CiFormats, LeaveAFullSummaryAsItIs) {
  write_text(job_.beside("summary.md"), std::string(1024 * 1024 - 10, 'x'));
  const Outcome report = lockstep("report run --format github", kStep);
  EXPECT_EQ(report.status, 1);
  EXPECT_THAT(report.err, HasSubstr("it is full (GitHub shows at most 1 MiB)"));
  EXPECT_EQ(summary().size(), 1024U * 1024 - 10);
}

TEST_F(CiFormats, OfSeveralRunsAreOneReport) {
  for (const Renderer& renderer : renderers()) {
    const Outcome report = lockstep("report run empty run --format " + renderer.format);
    EXPECT_EQ(report.status, 1) << renderer.format << report.err;
    EXPECT_NE(report.out, "") << renderer.format;
  }
  const auto json = nlohmann::json::parse(lockstep("report run run --format json").out);
  EXPECT_EQ(json["jobs"].size(), 2U);
  EXPECT_EQ(json["jobs"][1]["folder"], "run/job");
  EXPECT_EQ(json["command"], nlohmann::json({"lockstep", "report", "run", "run"}));
  const auto summary = nlohmann::json::parse(lockstep("report run run --format summary").out);
  EXPECT_EQ(summary["verdict"], "violated");
  EXPECT_EQ(lockstep("report run run --format keys").out, lockstep("report run --format keys").out);
  EXPECT_THAT(lockstep("report run run --format markdown").out,
              AllOf(StartsWith("## Lockstep: 0 of 2 jobs in lockstep\n"),
                    HasSubstr("--lr 1 (run/job) | 2 | ")));
}

TEST_F(CiFormats, AreSeveralInAFolder) {
  const Outcome refused = lockstep("report run --format html,junit");
  EXPECT_EQ(refused.status, 64);
  EXPECT_THAT(refused.err, HasSubstr("--format cannot be 'html,junit': give one format, or several "
                                     "with --out DIR, where their files go"));
  const Outcome report = lockstep("report run --format html,junit -o found/today");
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(report.out,
              AllOf(HasSubstr("FAILED: "), HasSubstr("Report: found/today/report.html\n"),
                    HasSubstr("Report: found/today/report.xml\n")));
  EXPECT_EQ(text_of(job_.beside("found/today/report.xml")),
            lockstep("report run --format junit").out);
  EXPECT_EQ(lockstep("report --format junit run").out, lockstep("report run --format junit").out)
      << "the run behind it is no format";
  EXPECT_THAT(lockstep("report run --format console").out, Not(HasSubstr("Report: ")));
  const Outcome nothing = lockstep("report run -o found/nothing");
  EXPECT_EQ(nothing.status, 64);
  EXPECT_THAT(nothing.err, HasSubstr("--out cannot be 'found/nothing': give one with --format"));
  EXPECT_FALSE(fs::exists(job_.beside("found/nothing")));
  EXPECT_THAT(lockstep("report run -q --format html -o found").out, Not(HasSubstr("Report: ")));
  EXPECT_THAT(lockstep("report run --format html -o run/record.json").err,
              HasSubstr("run/record.json"));
}

TEST_F(CiFormats, ForABisectionSayGoodBadSkipOrEnd) {
  EXPECT_EQ(lockstep("report run --bisect").status, 1);
  EXPECT_EQ(lockstep("report empty").status, 3);
  EXPECT_EQ(lockstep("report empty --bisect").status, 125);
  EXPECT_EQ(lockstep("report run empty --bisect").status, 1);
  EXPECT_EQ(lockstep("report nowhere").status, 64);
  EXPECT_EQ(lockstep("report nowhere --bisect").status, 255) << "git must not call it bad";
  EXPECT_EQ(lockstep("report run --bisect --fromat json").status, 255);
  EXPECT_EQ(lockstep("report run --bisect --known nowhere").status, 255);
  EXPECT_EQ(lockstep("diff run run").status, 2) << "its ranks differ";
  EXPECT_EQ(lockstep("diff run run --bisect").status, 125);
  EXPECT_EQ(lockstep("diff run empty --bisect").status, 255);
}

TEST_F(CiFormats, ForABisectionSkipAJobThatFailsByItself) {
  for (const char* job : {"false", "true", "'exit 7'"}) {
    const Outcome watch =
        lockstep(fmt::format("watch --bisect --out w -- sh -c {}", job), "rm -rf w;");
    EXPECT_EQ(watch.status, 125) << watch.err;
  }
  EXPECT_EQ(lockstep("watch --bisect -- nowhere/train").status, 255);
  EXPECT_EQ(lockstep("watch --out v -- sh -c 'exit 7' --bisect").status, 7)
      << "the job's own option";
}

}  // namespace
}  // namespace lockstep
