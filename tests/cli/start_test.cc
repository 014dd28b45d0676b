// Commands of `lockstep` without torch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/renderer.h"
#include "reports/record/json.h"
#include "tests/cli/fake_catalogue.h"
#include "tests/reports/formats/literal_run.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kNoCatalogue = "LOCKSTEP_CATALOGUE=/nowhere ";

TEST(Start, NeedsNoTorch) {
  const Outcome outcome = run_shell("ldd " + kLockstep);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("libc.so"), Not(HasSubstr("libtorch")),
                                 Not(HasSubstr("libc10")), Not(HasSubstr("libmkl"))));
}

TEST(Start, ShowsEveryCommand) {
  const Outcome outcome = run_shell(kNoCatalogue + kLockstep + " --help");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* command :
       {"list", "show", "run", "report", "compare", "runs", "pack", "doctor"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string("\n  ") + command + " "));
  }
  EXPECT_THAT(outcome.out, HasSubstr("Exit status:"));
}

TEST(Start, RefusesWhatIsNoCommand) {
  for (const auto& [arguments, told] :
       {std::pair("rnu", "Did you mean 'run'?"), std::pair("''", "command"),
        std::pair("--rnu report .", "--rnu"), std::pair("report", "RUN is required"),
        std::pair("compare x", "RUN is required"), std::pair("report . --format nosuch", "format"),
        std::pair("doctor --timeout x", "'x'")}) {
    const Outcome outcome = run_shell(kNoCatalogue + kLockstep + " " + arguments);
    EXPECT_EQ(outcome.status, 64) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(told)) << arguments;
  }
}

/// A folder with a record and without files of ranks.
class RunOnRecord : public testing::Test {
 protected:
  RunOnRecord() {
    RunRecord run = literal_run();
    run.cells.resize(1);
    run.cells.front().reference_folder.clear();
    run.planned = counts_of(run);
    for (RankExit& end : run.cells.front().exits) end = {end.rank, ExitKind::signalled, 9};
    std::filesystem::create_directories(folder_.path() / run.cells.front().folder);
    write_text(folder_.path() / "record.json", render_json(run));
  }
  Outcome lockstep(const std::string& arguments) const {
    return run_shell("cd " + folder_.path().string() + " && " + kNoCatalogue + kLockstep + " " +
                     arguments);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(RunOnRecord, IsReportedWithoutACatalogue) {
  for (const Renderer& renderer : renderers()) {
    const Outcome outcome = lockstep("report . --format " + renderer.format);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_THAT(outcome.out, HasSubstr("loss-on-unwrapped-module")) << renderer.format;
  }
}

TEST_F(RunOnRecord, WhoseReportCannotBeWrittenIsRefused) {
  const Outcome outcome = lockstep("report . >/dev/full");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST_F(RunOnRecord, OfAnotherVersionIsRefusedByEveryCommandThatReadsIt) {
  ASSERT_EQ(
      lockstep("--version && sed -i 's/\"version\": \"1.0\"/\"version\": \"1.1\"/' record.json")
          .status,
      0);
  const std::string table = LOCKSTEP_SOURCE_DIR "/reference/published/opentslm-49-drift.csv";
  const std::string refusal =
      "record.json is a record of version '1.1', but this program reads version 1.0: use the "
      "Lockstep that wrote it, or record the run again.\n";
  for (const std::string& arguments :
       {std::string("report ."), std::string("diff . ."), std::string("pack . --out ../p.tar.gz"),
        "compare " + table + " ."}) {
    const Outcome outcome = lockstep(arguments);
    EXPECT_EQ(outcome.status, 64) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(refusal)) << arguments;
    EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
  }
}

TEST_F(RunOnRecord, IsComparedWithoutACatalogue) {
  const std::string table = LOCKSTEP_SOURCE_DIR "/reference/published/opentslm-49-drift.csv";
  const Outcome outcome = lockstep("compare " + table + " .");
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("0 of "));
}

}  // namespace
}  // namespace lockstep
