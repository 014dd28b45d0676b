// `-q`, `-v`, `-vv`, and what the terminal has to do with a report.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/record/json.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/on_terminal.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A run of two scenarios of which no cell was run.
class ScreenOfAReport : public testing::Test {
 protected:
  ScreenOfAReport() {
    RunRecord run = literal_run();
    for (CellRecord& cell : run.cells) {
      cell.processes = 0;
      cell.exits.clear();
      cell.manifest.reset();
    }
    run.tables.clear();
    run.planned = counts_of(run);
    write_text(folder_.path() / "record.json", render_json(run));
  }

  std::string report(const std::string& options, const std::string& variables = "") const {
    return "cd " + folder_.path().string() + " && " + variables + " " + kLockstep + " report . " +
           options;
  }

 private:
  TemporaryFolder folder_;
};

std::size_t lines(const std::string& text) { return lines_of(text).size(); }

TEST_F(ScreenOfAReport, ShowsMoreWithEachV) {
  const std::string quiet = run_shell(report("-q")).out;
  const std::string overview = run_shell(report("")).out;
  const std::string variants = run_shell(report("-v")).out;
  const std::string full = run_shell(report("-vv")).out;
  EXPECT_EQ(lines(quiet), 1U) << quiet;
  EXPECT_THAT(overview, AllOf(HasSubstr("\nloss-on-unwrapped-module "), HasSubstr("report . -v\n"),
                              Not(HasSubstr("bypass (buggy)"))));
  EXPECT_THAT(variants, AllOf(HasSubstr("bypass (buggy)"), HasSubstr("report . -vv\n")));
  EXPECT_THAT(full, Not(HasSubstr("Details:")));
  EXPECT_EQ(run_shell(report("--quiet")).out, quiet);
  EXPECT_EQ(run_shell(report("-v -v")).out, full);
  EXPECT_EQ(run_shell(report("-vvvv")).out, full);
  for (const std::string& text : {overview, variants, full}) {
    EXPECT_EQ(text.substr(text.size() - quiet.size()), quiet) << "the verdict is last";
  }
}

TEST_F(ScreenOfAReport, SaysTheSizeOfALargeRun) {
  const std::string large = "dd if=/dev/zero of=journal bs=1M count=300 status=none && ";
  EXPECT_THAT(run_shell(report("")).out, HasSubstr("\nFiles: .\n"));
  EXPECT_THAT(run_shell(report("", large)).out,
              HasSubstr("\nFiles: ., 300.0 MiB (`lockstep runs --keep 10` removes old runs)\n"));
}

TEST_F(ScreenOfAReport, IsNotQuietAndVerboseAtATime) {
  const Outcome outcome = run_shell(report("-q -v"));
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--verbose"), HasSubstr("--quiet")));
}

TEST_F(ScreenOfAReport, IsPlainInAPipe) {
  for (const char* options : {"", "-q", "-v", "-vv"}) {
    EXPECT_THAT(run_shell(report(options, "TERM=xterm LC_ALL=C.UTF-8")).out,
                Not(HasSubstr("\x1b[")));
  }
}

TEST_F(ScreenOfAReport, HasAColouredVerdictOnATerminalAlone) {
  EXPECT_THAT(run_on_terminal(report("-q"), 80).out, HasSubstr("\x1b[33m"));
  for (const char* variables : {"NO_COLOR=1", "TERM=dumb"}) {
    EXPECT_THAT(run_on_terminal(report("", variables), 80).out, Not(HasSubstr("\x1b")))
        << variables;
  }
}

TEST_F(ScreenOfAReport, IsAsWideAsTheTerminalOrColumnsSay) {
  const std::string wide = run_shell(report("")).out;
  EXPECT_EQ(run_shell(report("", "COLUMNS=banana")).out, wide);
  const std::string narrow = run_shell(report("", "COLUMNS=40")).out;
  EXPECT_EQ(run_shell(report("", "COLUMNS=1")).out, narrow) << "no screen is that narrow";
  EXPECT_GT(lines(narrow), lines(wide));
  EXPECT_EQ(run_on_terminal(report("", "NO_COLOR=1"), 40).out, narrow);
  EXPECT_EQ(run_on_terminal(report("", "NO_COLOR=1 COLUMNS=40"), 80).out, narrow);
}

}  // namespace
}  // namespace lockstep
