// `lockstep pack`, and `report` and `compare` of what it writes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include "tests/cli/fake_catalogue.h"
#include "tests/pack/stored_job.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// A folder with a stored job in `run`, and one for temporary files.
class PackCommand : public testing::Test {
 protected:
  Outcome lockstep(const std::string& arguments) const {
    fs::create_directory(scratch());
    return run_shell(fmt::format("cd {} && TMPDIR={} LOCKSTEP_CATALOGUE=/nowhere {} {}",
                                 job_.beside("").string(), scratch().string(), kLockstep,
                                 arguments));
  }
  fs::path scratch() const { return job_.beside("scratch"); }
  bool leaves_nothing() const { return fs::is_empty(scratch()); }

  StoredJob job_;
};

TEST_F(PackCommand, WritesAFileThatReportReads) {
  const Outcome packed = lockstep("pack run");
  EXPECT_EQ(packed.status, 0) << packed.err;
  EXPECT_THAT(packed.out, AllOf(StartsWith("run.lockstep.tar.gz: "),
                                HasSubstr("\nRead it: lockstep report run.lockstep.tar.gz\n")));
  const Outcome report = lockstep("report run.lockstep.tar.gz --format csv");
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_EQ(report.out, std::regex_replace(lockstep("report run --format csv").out,
                                           std::regex("/opt/private/torchrun [^,]*"), "torchrun"));
  EXPECT_TRUE(leaves_nothing());
}

TEST_F(PackCommand, NamesTheFileAfterTheRunThatALinkPointsTo) {
  fs::create_symlink("run", job_.beside("latest"));
  EXPECT_THAT(lockstep("pack latest").out, StartsWith("run.lockstep.tar.gz: "));
  EXPECT_EQ(lockstep("pack run/. --out other.tgz").status, 0);
  EXPECT_THAT(run_shell("tar tzf " + job_.beside("other.tgz").string()).out,
              StartsWith("run/record.json\n"));
}

TEST_F(PackCommand, ReplacesNoFile) {
  write_text(job_.beside("mine"), "mine");
  const Outcome packed = lockstep("pack run --out mine");
  EXPECT_EQ(packed.status, 64);
  EXPECT_EQ(
      packed.err,
      "lockstep: Cannot write mine: it exists, and a pack never replaces a file. Name another "
      "file with --out.\n");
  EXPECT_EQ(text_of(job_.beside("mine")), "mine");
}

TEST_F(PackCommand, IntoAPlaceThatIsNotThereIsRefused) {
  EXPECT_EQ(lockstep("pack run --out none/x").err,
            "lockstep: Cannot write none/x: No such file or directory. Give a place that can be "
            "written.\n");
}

TEST_F(PackCommand, OnAFullDiskLeavesNothing) {
  const Outcome packed = lockstep("runs . >/dev/null; ulimit -f 1; " + kLockstep + " pack run");
  EXPECT_EQ(packed.status, 64);
  EXPECT_THAT(packed.err, HasSubstr("Cannot write "));
  EXPECT_FALSE(fs::exists(job_.beside("run.lockstep.tar.gz")));
  EXPECT_TRUE(leaves_nothing());
}

TEST_F(PackCommand, OfFindingsIsReportedWithoutJudgingAgain) {
  EXPECT_EQ(lockstep("pack run --findings-only --out f").status, 0);
  const Outcome report = lockstep("report f");
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(unwrapped(report.out),
              AllOf(HasSubstr("encoder.secret.weight in step 3"),
                    HasSubstr("note: the files were left out of this pack, so nothing was judged "
                              "again: these are the results of the last judgement"),
                    HasSubstr("Details: lockstep report f -v")));
  const Outcome compared = lockstep("compare opentslm-49-drift f");
  EXPECT_EQ(compared.status, 64);
  EXPECT_THAT(compared.err, HasSubstr("Cannot read f: this pack has no files of ranks."));
  EXPECT_TRUE(leaves_nothing());
}

/// By hand, with tar.
TEST_F(PackCommand, IsReportedFromTheFolderThatItUnpacksToAsWell) {
  ASSERT_EQ(lockstep("pack run --out p --redact secret && tar xzf p --one-top-level=u").status, 0);
  const Outcome report = lockstep("report u/run");
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(report.out,
              AllOf(HasSubstr("differ between ranks: name-1 in step 3"), Not(HasSubstr("secret"))));
  EXPECT_EQ(lockstep("report u/run --format json").out, lockstep("report p --format json").out);
  ASSERT_EQ(lockstep("pack run --out f --findings-only && tar xzf f --one-top-level=v").status, 0);
  EXPECT_THAT(unwrapped(lockstep("report v/run").out), HasSubstr("nothing was judged again"));
}

TEST_F(PackCommand, SaysHowManyNamesWereReplaced) {
  EXPECT_THAT(lockstep("pack run --out a --redact '^head'").out, HasSubstr(", a name replaced\n"));
  EXPECT_THAT(lockstep("pack run --out b --redact '^head' --redact '^enc'").out,
              HasSubstr(", 2 names replaced\n"));
}

TEST_F(PackCommand, ThatIsDamagedIsRefusedByReport) {
  ASSERT_EQ(lockstep("pack run --out p").status, 0);
  write_text(job_.beside("cut"), text_of(job_.beside("p")).substr(0, 2000));
  const Outcome report = lockstep("report cut");
  EXPECT_EQ(report.status, 64);
  EXPECT_THAT(report.err, StartsWith("lockstep: Cannot read cut: it is damaged: "));
  EXPECT_TRUE(leaves_nothing());
}

TEST_F(PackCommand, WithoutAReadableRecordIsNamedAsItWasGiven) {
  ASSERT_EQ(lockstep("pack run --out p && tar xzf p && rm run/record.json && tar czf q run").status,
            0);
  EXPECT_EQ(lockstep("report q").err,
            "lockstep: Cannot read q: it holds no record.json. Name the folder of a run.\n");
  ASSERT_EQ(lockstep("runs . >/dev/null; echo x >run/record.json && tar czf q run").status, 0);
  for (const char* command : {"report q", "compare opentslm-49-drift q"}) {
    EXPECT_THAT(lockstep(command).err, StartsWith("lockstep: q/record.json:1:")) << command;
  }
  EXPECT_TRUE(leaves_nothing());
}

/// Its files are read after it was unpacked.
TEST_F(PackCommand, WhoseFilesAreMalformedLeavesNothing) {
  ASSERT_EQ(lockstep("pack run --out p && tar xzf p && printf x >> run/job/rank-0.status.json "
                     "&& rm run/job/rank-0.csv && tar czf q run")
                .status,
            0);
  EXPECT_NE(lockstep("report q").status, 0);
  EXPECT_TRUE(leaves_nothing());
}

}  // namespace
}  // namespace lockstep
