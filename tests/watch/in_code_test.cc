// Trainings that observe themselves: `lockstep.watch()` in the script, without `lockstep watch`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/command.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Where `import lockstep` is found in a build.
const std::string kWithPackage =
    fmt::format("env PYTHONPATH={}/share/lockstep/python ", LOCKSTEP_BUILD);

Outcome report_of(const fs::path& folder, const std::string& options = "") {
  return run_shell(fmt::format("{} report {} {}", LOCKSTEP_PROGRAM, folder.string(), options));
}

/// The trainings of in_code_training.py, run once.
class InCode : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    outcome_ = run_shell(kWithPackage + torchrun("in_code_training") + " " + path("").string());
  }
  static void TearDownTestSuite() { delete folder_; }
  static fs::path path(const std::string& name) { return folder_->path() / name; }

  inline static TemporaryFolder* folder_ = nullptr;
  inline static Outcome outcome_;
};

TEST_F(InCode, IsInLockstepIfWatchedBeforeTorchIsImported) {
  ASSERT_EQ(outcome_.status, 0) << outcome_.out << outcome_.err;
  const Outcome report = report_of(path("before_torch"));
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("in_code_training.py"));
  EXPECT_THAT(report.out, HasSubstr(", torch "));
  EXPECT_THAT(
      unwrapped(report.out),
      HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 2 ranks, 4 steps, 1 to 4"));
}

TEST_F(InCode, IsInLockstepIfWatchedAfterTheModelWasBuilt) {
  const Outcome report = report_of(path("after_model"));
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("4 of 4 parameters compared on 2 of 2 ranks"));
  EXPECT_THAT(unwrapped(report.out), HasSubstr("optimizer states agree across ranks"));
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("the gradients of 4 parameters were observed in each of up to 1 backward"));
}

TEST_F(InCode, LeavesNoHooksOfBuffersBehind) {
  EXPECT_THAT(unwrapped(report_of(path("buffers")).out),
              HasSubstr("buffers agree across ranks before the forward passes, 3 of them"));
  const Outcome report = report_of(path("after_buffers"));
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("4 steps, 1 to 4"));
}

TEST_F(InCode, FindsAFaultAtItsStepAfterAnotherWatch) {
  const Outcome report = report_of(path("faulty"));
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("FAILED: gradients were not synchronised (4 of 4, from step 3). Cause: "
                        "DDP's forward was not called from step 3 on"));
}

TEST_F(InCode, EndsWithTheProcess) {
  const Outcome report = report_of(path("until_the_end"));
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("2 steps, 2 to 3"));
}

TEST_F(InCode, SaysHowItIsCalledRightly) {
  EXPECT_THAT(outcome_.out,
              HasSubstr("RuntimeError: This process is watched already, in " +
                        path("before_torch").string() + ". Call lockstep.stop() first."));
  EXPECT_THAT(outcome_.out, HasSubstr("ValueError: lockstep.watch() needs out, because each of the "
                                      "2 ranks would make a folder of its own: give all of them"));
  EXPECT_THAT(outcome_.out,
              HasSubstr("RuntimeError: Cannot write " + path("before_torch").string() +
                        ": it holds an earlier job, and results are never overwritten."));
  EXPECT_EQ(lines_of(outcome_.out).size(), 3U) << outcome_.out;
  EXPECT_FALSE(fs::exists(path("another")));
}

/// Python without torch, with one call.
Outcome called(const std::string& arguments, const std::string& prefix = "") {
  return run_shell(fmt::format("{}{} {} -c 'import lockstep; print(lockstep.watch({}))'", prefix,
                               kWithPackage, LOCKSTEP_PYTHON, arguments));
}

struct WrongCall {
  std::string arguments;
  std::string said;
};

class InCodeArguments : public testing::TestWithParam<WrongCall> {};

TEST_P(InCodeArguments, AreRefusedWithASentence) {
  const Outcome outcome = called(GetParam().arguments);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ValueError: " + GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Wrong, InCodeArguments,
    testing::Values(
        WrongCall{"every=0", "every cannot be 0: give a whole number from 1 to "},
        WrongCall{"every=True", "every cannot be True: give a whole number"},
        WrongCall{"start=\"first\"", "start cannot be 'first': give a whole number"},
        WrongCall{"start=5, until=4", "until cannot be 4: give a whole number from 5 to "},
        WrongCall{"keep=-1", "keep cannot be -1: give a whole number from 0 to 1048576."},
        WrongCall{"history=2000", "history cannot be 2000: give a whole number from 1 to 1536."},
        WrongCall{"ignore=\"(\"", "ignore cannot be '(': give a regular expression."},
        WrongCall{"tensors=3", "tensors cannot be 3: give a regular expression."},
        WrongCall{"replicas=\"tp\"", "replicas cannot be 'tp': give a name and a number of ranks"},
        WrongCall{"also=\"weights\"", "also cannot be 'weights': give some of buffers, "},
        WrongCall{"also=3", "also cannot be 3: give some of buffers, "},
        WrongCall{"agree_every=0", "agree_every cannot be 0: give a whole number from 1 to "},
        WrongCall{"agree_every=4, every=2", "every cannot be 2: give 1, since agree_every needs"},
        WrongCall{"out=\"\"", "out cannot be '': give the path of a folder."},
        WrongCall{"out=7", "out cannot be 7: give the path of a folder."}));

TEST(InCodeFolder, IsNewForASingleProcess) {
  const TemporaryFolder folder;
  const Outcome outcome = called("", fmt::format("cd {} && ", folder.path().string()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder.path() / "runs" / "latest" / "record.json"));
  EXPECT_THAT(outcome.out, HasSubstr((folder.path() / "runs" / "2").string()));
  const Outcome report = report_of(folder.path() / "runs" / "latest");
  EXPECT_EQ(report.status, 2);
  EXPECT_THAT(unwrapped(report.out), HasSubstr("python -c, 0 ranks: NOTHING OBSERVED"));
}

TEST(InCodeFolder, MustBeOneThatCanBeWritten) {
  const Outcome outcome = called("out=\"/proc/run\"");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("RuntimeError: Cannot write /proc/run: "));
}

TEST(InCodeLibrary, IsNamedIfItIsNotThere) {
  const Outcome outcome = called("", "env LOCKSTEP_WATCH_LIBRARY=/nowhere.so ");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("RuntimeError: Lockstep's library cannot be loaded: "
                                     "/nowhere.so: "));
  EXPECT_THAT(outcome.err, HasSubstr("Build it, or set LOCKSTEP_WATCH_LIBRARY to its path."));
}

/// The job is observed from outside as if the script had called nothing.
TEST(InCodeUnderWatch, DoesNothing) {
  const TemporaryFolder folder;
  write_text(folder.path() / "train.py",
             "import lockstep\nprint(lockstep.watch(out='unused'))\nimport torch\n"
             "model = torch.nn.Linear(2, 2)\n"
             "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
             "for step in range(3):\n    model(torch.ones(1, 2)).sum().backward()\n"
             "    optimizer.step()\n    lockstep.stop()\n");
  const Outcome outcome =
      run_shell(fmt::format("cd {} && {} watch --out run -- {} train.py", folder.path().string(),
                            LOCKSTEP_PROGRAM, python_of_trainings()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;  // a single rank is recorded
  EXPECT_EQ(outcome.out, (folder.path() / "run").string() + "\n");
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: lockstep.watch() does nothing here: "));
  EXPECT_THAT(text_of(folder.path() / "run" / "job" / "rank-0.status.json"),
              HasSubstr("\"step\": 3"));
  EXPECT_FALSE(fs::exists(folder.path() / "unused"));
}

/// The disk is full in the first training, which goes on; the second one is observed again.
TEST(InCodeFailure, RaisesNothingIntoTheJob) {
  const TemporaryFolder folder;
  write_text(folder.path() / "train.py",
             "import lockstep, torch\n"
             "model = torch.nn.Linear(2, 2)\n"
             "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
             "for out, steps in ('full', 400), ('again', 3):\n"
             "    lockstep.watch(out=out)\n"
             "    for step in range(steps):\n"
             "        model(torch.ones(1, 2)).sum().backward()\n"
             "        optimizer.step()\n"
             "    lockstep.stop()\n"
             "print('trained')\n");
  const Outcome outcome =
      run_shell(fmt::format("cd {} && ulimit -f 40; trap '' XFSZ; {} {} train.py",
                            folder.path().string(), kWithPackage, python_of_trainings()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "trained\n");
  EXPECT_THAT(outcome.err, HasSubstr("lockstep: rank 0 is no longer observed: Cannot write "));
  const Outcome report = report_of(folder.path() / "full");
  EXPECT_EQ(report.status, 2) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              HasSubstr("UNDECIDED: not all of its ranks have ended their watch"));
  EXPECT_THAT(text_of(folder.path() / "again" / "record.json"), HasSubstr("\"unsealed\": \"\""));
}

}  // namespace
}  // namespace lockstep
