// `lockstep watch` around commands that train nothing, and around one that trains.

#include "tests/watch/watch_command.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/record/run_folder.h"
#include "reports/record/run_record.h"
#include "tests/watch/marked_place.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Three steps of a linear layer in one process.
const std::string kTrainingOfOne =
    "import torch; m = torch.nn.Linear(2, 2); o = torch.optim.SGD(m.parameters(), 0.1); "
    "[(o.zero_grad(), m(torch.ones(1, 2)).sum().backward(), o.step()) for i in range(3)]";

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(WatchCommand, PassesOutputAndStatusOfTheJobThrough) {
  const Outcome outcome = watch("", "sh -c 'echo of the job; echo error >&2; exit 7'");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(outcome.out, "of the job\n");
  EXPECT_THAT(outcome.err, HasSubstr("error\n"));
}

TEST_F(WatchCommand, PassesASignalThrough) {
  EXPECT_EQ(watch("", "sh -c 'kill -9 $$'").status, 137);
}

TEST_F(WatchCommand, PassesTheEnvironmentAndTheArgumentsOfTheJobThrough) {
  const Outcome outcome =
      watch("--every 2", "sh -c 'echo $LOCKSTEP_WATCH_EVERY \"$@\"' x --every '3 4'");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "2 --every 3 4\n");
}

TEST_F(WatchCommand, SaysThatNothingWasObserved) {
  const Outcome outcome = watch("", "true");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("NOTHING OBSERVED: no Python of the command loaded the hook; `python -I`"));
  const Outcome again = run_shell(kLockstep + " report " + out().string());
  EXPECT_EQ(again.status, 3) << again.err;
  EXPECT_THAT(unwrapped(again.out), HasSubstr("NOTHING OBSERVED"));
}

TEST_F(WatchCommand, SaysHowFarACommandCameOfWhichNothingWasObserved) {
  const auto said = [&](const std::string& command) {
    fs::remove_all(out());
    return unwrapped(watch("", command).err);
  };
  EXPECT_THAT(said(python_of_trainings() + " -c 'print(1)'"),
              HasSubstr("NOTHING OBSERVED: no Python of the command imported torch"));
  EXPECT_THAT(said(python_of_trainings() + " -I -c 'import torch'"),
              HasSubstr("NOTHING OBSERVED: no Python of the command loaded the hook"));
  EXPECT_THAT(said(python_of_trainings() + " -c 'import torch'"),
              HasSubstr("NOTHING OBSERVED: torch was imported, but no step of a torch.optim."));
  EXPECT_THAT(said(python_of_trainings() + " -c 'import os; os.kill(os.getpid(), 15)'"),
              HasSubstr("NOTHING OBSERVED: the command was ended by signal 15 before an optimizer "
                        "of torch stepped Files: "));
}

TEST_F(WatchCommand, DoesNotSayThatNoOptimizerSteppedWhereStepsAreLeftOut) {
  const Outcome outcome = watch("--start 100", two_ranks("one_training"));
  EXPECT_THAT(unwrapped(outcome.err),
              AllOf(HasSubstr("NOTHING OBSERVED on 2 ranks: torch was imported, but no step of a "
                              "torch.optim.Optimizer was observed; "),
                    HasSubstr("--start, --until and --off leave steps out")));
}

TEST_F(WatchCommand, SaysWhyACommandFailedBeforeAStep) {
  const Outcome failed = watch("", "sh -c 'exit 7'");
  EXPECT_EQ(failed.status, 7);
  EXPECT_THAT(unwrapped(failed.err),
              HasSubstr("NOTHING OBSERVED: the command ended with status 7 "
                        "before an optimizer of torch stepped: no Python of the "
                        "command loaded the hook; "));
  fs::remove_all(out());
  const Outcome raised =
      watch("", python_of_trainings() + " -c 'import sys; sys.exit(3) if 0 else int(\"x y\")'");
  EXPECT_EQ(raised.status, 1);
  EXPECT_THAT(unwrapped(raised.err),
              HasSubstr("ended with status 1 before an optimizer of torch stepped: ValueError: "
                        "invalid literal for int() with base 10: 'x y'"));
}

TEST_F(WatchCommand, RecordsAJobOfOneProcess) {
  const std::string one = python_of_trainings() + " -c '" + kTrainingOfOne + "'";
  const Outcome outcome = watch(kReports, one);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("1 rank: recorded: 3 steps of 2 parameters; compare: lockstep diff " +
                        out().string() + " RUN"));
  EXPECT_THAT(outcome.err, HasSubstr("--data"));
  const std::string summary = text_of(out() / "summary.json");
  EXPECT_THAT(summary, HasSubstr("\"verdict\": \"recorded\""));
  EXPECT_THAT(text_of(out() / "report.xml"), Not(HasSubstr("<error")));
  EXPECT_EQ(run_shell(kLockstep + " report " + out().string()).status, 0);
  fs::remove_all(out());
  EXPECT_EQ(watch("--strict", one).status, 2);
  fs::remove_all(out());
  EXPECT_EQ(watch("--expect agrees", one).status, 3);
}

TEST_F(WatchCommand, IsUndecidedAboutARankThatGoesOnInAnotherProcess) {
  const auto trained = [&](const std::string& way) {
    fs::remove_all(out());
    return watch("", fmt::format("{} {}/tests/watch/elsewhere_training.py {}",
                                 python_of_trainings(), LOCKSTEP_SOURCE_DIR, way));
  };
  const Outcome forked = trained("fork");
  EXPECT_EQ(forked.status, 2);
  EXPECT_THAT(unwrapped(forked.err), HasSubstr(" after step 1: it trains on in another process"));
  const Outcome replaced = trained("exec");
  EXPECT_EQ(replaced.status, 2);
  EXPECT_THAT(unwrapped(replaced.err), HasSubstr(" after step 2: it trains on in another process"));
  const Outcome helped = trained("helper");
  EXPECT_EQ(helped.status, 0) << helped.err;
  EXPECT_THAT(unwrapped(helped.err), HasSubstr("recorded: 3 steps of 2 parameters"));
}

TEST_F(WatchCommand, MarksItsFolderUntilTheJobHasEnded) {
  const std::string runs =
      fmt::format("{} runs {} --keep 0", kLockstep, out().parent_path().string());
  EXPECT_EQ(watch("", fmt::format("sh -c '{}'", runs)).out,
            fmt::format("kept {}: it still runs\n0 runs, 0 B freed\n", out().string()));
  EXPECT_EQ(run_shell(runs).status, 0);
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(WatchCommand, MeetsNoExpectationWithoutObservations) {
  for (const char* expected : {"agrees", "diverges"}) {
    fs::remove_all(out());
    EXPECT_EQ(watch(fmt::format("--expect {}", expected), "true").status, 3) << expected;
  }
}

TEST_F(WatchCommand, RefusesACommandThatIsNotThere) {
  const Outcome outcome = watch("", "no-such-program");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("cannot start 'no-such-program': No such file"));
  EXPECT_FALSE(fs::exists(out())) << "it would be the latest run";
  EXPECT_THAT(watch("", "/etc/passwd").err, HasSubstr("cannot start '/etc/passwd': Permission"));
}

/// So that the next run observes the same.
TEST_F(WatchCommand, RecordsItsOptions) {
  EXPECT_EQ(
      watch("--every 2 --data --also buffers,optimizer-state --ignore 'b.*' -q", "true").status, 3);
  EXPECT_THAT(text_of(out() / "record.json"), HasSubstr(R"("lockstep",
    "watch",
    "--every",
    "2",
    "--ignore",
    "b.*",
    "--also",
    "buffers,optimizer-state",
    "--data",
    "--",
    "true")"));
}

/// The verdict of a long job must not be lost with it.
TEST_F(WatchCommand, SaysItsVerdictThoughAReportCannotBeWritten) {
  const Outcome outcome = watch(
      "--format html,json", "sh -c 'mkdir -p $LOCKSTEP_WATCH_FOLDER/../report.html/in_the_way'");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("NOTHING OBSERVED"), HasSubstr("Cannot write")));
  EXPECT_TRUE(fs::exists(out() / "report.json"));
}

TEST_F(WatchCommand, RefusesWrongArguments) {
  const Outcome bare = run_shell(kLockstep + " watch true");
  EXPECT_EQ(bare.status, 64);
  EXPECT_THAT(unwrapped(bare.err), HasSubstr("Usage: lockstep watch [OPTIONS] -- COMMAND..."));
  EXPECT_EQ(watch("--label ''", "true").status, 64);
  EXPECT_EQ(watch("--every 0", "true").status, 64);
  EXPECT_EQ(watch("--ignore '('", "true").status, 64);
  EXPECT_EQ(watch("--replicas 2", "true").status, 64);
  EXPECT_EQ(watch("--expect maybe", "true").status, 64);
  EXPECT_EQ(watch("--agree-every 0", "true").status, 64);
  EXPECT_EQ(watch("--agree-every 4 --every 2", "true").status, 64);
  EXPECT_EQ(watch("--also weights", "true").status, 64);
  EXPECT_EQ(watch("--format nothing", "true").status, 64);
  EXPECT_EQ(watch("--node a/b", "true").status, 64);
  EXPECT_EQ(watch("--node a --expect agrees", "true").status, 64);
  EXPECT_EQ(watch("--repeat -1", "true").status, 64);
  EXPECT_EQ(watch("--perturb 101", "true").status, 64);
  EXPECT_THAT(watch("--node a --perturb 1", "true").err, HasSubstr("--perturb cannot be '1'"));
  EXPECT_THAT(watch("--node a --repeat 2", "true").err, HasSubstr("--repeat cannot be '2'"));
  EXPECT_EQ(run_shell(kLockstep + " watch --node a -- true").status, 64);
  EXPECT_EQ(run_shell(kLockstep + " watch").status, 64);
  EXPECT_FALSE(fs::exists(out()));
}

/// The hook searches names with Python's expressions, which differ from those of C++.
TEST_F(WatchCommand, TakesTheRegularExpressionsOfPython) {
  EXPECT_EQ(watch("--ignore '(?i)HEAD|(?<!lm_)head' --tensors '[^]]x'", "true").status, 3);
  for (const char* wrong : {"--ignore '[^]x'", "--tensors '\\cA'"}) {
    const Outcome outcome = watch(wrong, "true");
    EXPECT_EQ(outcome.status, 64) << wrong;
    EXPECT_THAT(unwrapped(outcome.err), HasSubstr("give a regular expression of Python ("))
        << wrong;
  }
}

TEST_F(WatchCommand, ReadsTheSettingsOfTheRepository) {
  const TemporaryFolder repository;
  const auto watch_in = [&](const std::string& settings, const std::string& options) {
    write_text(repository.path() / "lockstep.toml", settings);
    return run_shell(
        fmt::format("cd {} && {} watch {} -- sh -c 'echo $LOCKSTEP_WATCH_EVERY "
                    "$LOCKSTEP_WATCH_REPLICAS $LOCKSTEP_WATCH_IGNORE'",
                    repository.path().string(), kLockstep, options));
  };
  const std::string settings =
      "# of our jobs\n[watch]\nevery = 5\nreplicas = \"tp=2\"\nignore = '^experts\\.'\n";
  EXPECT_EQ(watch_in(settings, "").out, "5 tp=2 ^experts\\.\n");
  EXPECT_EQ(watch_in(settings, "--every 7 --out again").out, "7 tp=2 ^experts\\.\n");
  EXPECT_EQ(watch_in("[other]\nignroe = 'x'\n", "--out other").status, 64);
  const Outcome wrong = watch_in("[watch]\nignroe = 'x'\n", "--out wrong");
  EXPECT_EQ(wrong.status, 64);
  EXPECT_THAT(unwrapped(wrong.err), HasSubstr("Did you mean 'ignore'?"));
  EXPECT_EQ(watch_in("[watch]\nevery = 0\n", "--out zero").status, 64);
}

/// The steps in the lines that say so.
std::vector<std::int64_t> steps_after(const std::string& text, const std::string& output) {
  std::vector<std::int64_t> steps;
  for (auto at = output.find(text); at != output.npos; at = output.find(text, at + 1)) {
    steps.push_back(std::stoll(output.substr(at + text.size())));
  }
  return steps;
}

TEST_F(WatchCommand, IsSwitchedOnAndOffWhileTheJobRuns) {
  const Outcome outcome = watch("--off --expect agrees", two_ranks("switched_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const auto on = steps_after("lockstep: steps are observed from step ", outcome.err);
  const auto off = steps_after("lockstep: no step is observed from step ", outcome.err);
  ASSERT_EQ(on.size(), 2U) << outcome.err;
  ASSERT_EQ(off.size(), 1U) << outcome.err;
  const auto last = steps_after("trained ", outcome.out);
  ASSERT_EQ(last.size(), 1U) << outcome.out;
  const std::int64_t observed = off[0] - on[0] + last[0] + 1 - on[1];
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr(fmt::format("2 of 2 ranks, {} steps, {} to {}", observed, on[0], last[0])));
}

TEST_F(WatchCommand, DoesNotTakeDataWorkersForRanks) {
  const Outcome outcome = watch("", "env WORKERS=1 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("4 of 4 parameters compared on 2 of 2 ranks, 4 st"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("no longer observed")));
}

TEST_F(WatchCommand, JudgesATrainingOfTwoRanks) {
  const std::string job = two_ranks("one_training");
  const Outcome healthy = watch("--format json,markdown --expect agrees --min-steps 4", job);
  EXPECT_EQ(healthy.status, 0) << healthy.err;
  EXPECT_THAT(
      unwrapped(healthy.err),
      HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 2 ranks, 4 steps, 1 to 4"));
  EXPECT_TRUE(fs::exists(out() / "report.json"));
  EXPECT_TRUE(fs::exists(out() / "report.md"));
  EXPECT_EQ(run_shell(kLockstep + " report " + out().string()).status, 0);
  const RunRecord run = load_record(out());
  EXPECT_EQ(run.jobs[0].devices, (std::vector<DeviceUse>{{"cpu", "", 4, {0, 1}, {}}}));
  ASSERT_TRUE(run.jobs[0].host_memory);
  EXPECT_GT(run.jobs[0].host_memory->least, 50 << 20) << "torch alone takes more";
  EXPECT_FALSE(run.jobs[0].device_memory);
  EXPECT_THAT(run_shell(kLockstep + " report -vv " + out().string()).out,
              testing::ContainsRegex("  memory: at most [0-9]+ MiB .rank [01]"))
      << "and the least, unless it is the same";

  fs::remove_all(out());
  const Outcome faulty = watch("", "env FAULT=1 " + job);
  EXPECT_EQ(faulty.status, 1) << faulty.err;
  EXPECT_THAT(
      unwrapped(faulty.err),
      HasSubstr("FAILED: gradients were never synchronised (4 of 4, from step 1). Cause: DDP"));
  EXPECT_EQ(run_shell(kLockstep + " report " + out().string()).status, 1);
}

/// As without Lockstep: the journals are whole although the ranks never end by themselves.
TEST_F(WatchCommand, JudgesRanksThatLeaveWithoutCleaningUp) {
  const Outcome outcome = watch("", "env END=_exit " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("in lockstep: 4 of 4 parameters"));
}

/// Python forgets it, and the rank would have finished.
TEST_F(WatchCommand, NamesTheErrorThatATrainingCatchesBeforeItLeaves) {
  for (const char* const end : {"caught", "caught-at-once"}) {
    fs::remove_all(out());
    const Outcome outcome = watch("", fmt::format("env END={} {}", end, two_ranks("one_training")));
    EXPECT_EQ(outcome.status, 5) << outcome.err;
    EXPECT_THAT(unwrapped(outcome.err),
                testing::ContainsRegex(
                    "RAISED on rank 1 after step 4: ValueError: bad sample 18, at [a-z/]*" +
                    marked_place("one_training.py", "# the line of the error")));
  }
}

TEST_F(WatchCommand, NamesNoErrorOfARankThatDoesNotLeaveAfterAll) {
  const Outcome outcome = watch("", "env END=recovered " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("in lockstep: 4 of 4 parameters"));
}

TEST_F(WatchCommand, NamesTheErrorThatEndsARankBeforeItsFirstStep) {
  const Outcome outcome = watch("", "env END=first " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("RAISED on rank 1 before the first step: ValueError: bad sample 17, at "));
  EXPECT_THAT(
      unwrapped(outcome.err),
      testing::ContainsRegex(
          "rank 1 raised an error at [a-z/]*one_training.py:[0-9]+: ValueError: bad sample"));
}

std::string pooled_ranks(const std::string& pool, const fs::path& folder) {
  return fmt::format("env OMP_NUM_THREADS=1 {} {}/tests/watch/pooled_ranks.py {} {}",
                     python_of_trainings(), LOCKSTEP_SOURCE_DIR, pool, (folder / pool).string());
}

/// No rank tells it: it was given to the process that started the ranks.
TEST_F(WatchCommand, NamesTheErrorThatRanksGiveToTheirLauncher) {
  const std::pair<const char*, const char*> results[] = {
      {"futures", "all ranks finished, but the command ended with status 1"},
      {"actors", "FAILED: rank 0 disappeared after step 2, and 1 more rank"}};
  const TemporaryFolder folder;
  for (const auto& [pool, result] : results) {
    fs::remove_all(out());
    const Outcome outcome = watch("", pooled_ranks(pool, folder.path()));
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(unwrapped(outcome.err), HasSubstr(result));
    EXPECT_THAT(unwrapped(outcome.err),
                HasSubstr("note: a process of the command that is no rank "
                          "ended by this error: ValueError: bad sample 17"));
  }
}

TEST_F(WatchCommand, ExpectsTheErrorThatRanksGiveToTheirLauncher) {
  const TemporaryFolder folder;
  const Outcome outcome =
      watch("--expect 'raises=sample [0-9]+'", pooled_ranks("futures", folder.path()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("as expected (raises): ValueError: bad sample 17"));
}

TEST_F(WatchCommand, NamesTheErrorOfADataWorkerAndItsLine) {
  const Outcome outcome = watch("", "env END=worker " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              testing::ContainsRegex("RAISED on rank 1 after step 2: KeyError: 2, in DataLoader "
                                     "worker process 0, at __getitem__ .[a-z/]*" +
                                     marked_place("one_training.py", "# the line of the worker")));
}

/// Its hook wrote them as they were; they are masked before the run is sealed.
TEST_F(WatchCommand, LeavesNoSecretOfAnErrorInTheFilesOfRanks) {
  const std::string token = "hf_abcdefghijklmnopqrstuvwxyzabcdefgh";
  const Outcome outcome =
      watch("", fmt::format("env END=first 'SAID= for {}' {}", token, two_ranks("one_training")));
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("ValueError: bad sample 17 for ***"));
  int masked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out())) {
    if (!entry.is_regular_file()) continue;
    const std::string text = text_of(entry.path());
    EXPECT_THAT(text, Not(HasSubstr(token))) << entry.path();
    masked +=
        entry.path().filename() != "record.json" && text.find("17 for ***") != text.npos ? 1 : 0;
  }
  EXPECT_GT(masked, 0);
  EXPECT_THAT(run_shell(kLockstep + " report " + out().string()).out, HasSubstr("17 for ***"));
}

/// It has the variables of the rank, also its number.
TEST_F(WatchCommand, DoesNotTakeAProcessThatARankStartsForTheRank) {
  const Outcome outcome = watch("", "env TOOL=1 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("in lockstep: 4 of 4 parameters"));
}

/// A port among its arguments may be another one in the next run.
TEST_F(WatchCommand, ListsKnownFindingsByTheScriptAlone) {
  const TemporaryFolder beside;
  const std::string known = (beside.path() / "known.txt").string();
  const Outcome first = watch("", "env FAULT_FROM=2 " + torchrun("one_training") + " --port 1");
  ASSERT_EQ(first.status, 1) << first.err;
  ASSERT_EQ(run_shell(kLockstep + " report " + out().string() + " --format keys >" + known).status,
            1);
  EXPECT_THAT(text_of(known), AllOf(HasSubstr(" | one_training.py | "), Not(HasSubstr("--port"))));
  EXPECT_LE(lines_of(text_of(known)).size(), 3U) << text_of(known);  // one for each broken claim
  fs::remove_all(out());
  const Outcome again =
      watch("--known " + known, "env FAULT_FROM=2 " + torchrun("one_training") + " --port 2");
  EXPECT_EQ(again.status, 0) << again.err;
}

TEST_F(WatchCommand, PassesTheStatusOfAJobOnWhoseRankWasKilled) {
  const Outcome outcome = watch("", "env END=kill " + torchrun("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("rank 1 was killed by signal 9 (SIGKILL: out of memory?) "
                        "after step 4"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("note: rank 1: SIGKILL")));  // said once
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("4 of 4 parameters compared on 2 of 2 ranks"));
}

/// Waits until the job in folder {0} has trained some steps, then does {1}.
constexpr const char* kWhenTraining =
    "until [ $(stat -c %s {0}/job/rank-1.index 2>/dev/null || echo 0) -gt 4000 ]; do sleep 0.1; "
    "done; {1}";

TEST_F(WatchCommand, SaysHowFarAnInterruptedJobAgreed) {
  const std::string interrupt =
      fmt::format(kWhenTraining, out().string(), "kill $watched; wait $watched");
  const Outcome outcome =
      run_shell(fmt::format("env HEALTHY=1 {} watch --out {} -- {} & watched=$!; {}", kLockstep,
                            out().string(), two_ranks("endless_training"), interrupt));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(unwrapped(outcome.err),
              testing::ContainsRegex("INTERRUPTED after step [0-9]+; in lockstep until then"));
}

/// So that `git bisect` ends, too, instead of taking the next commit.
TEST_F(WatchCommand, MeetsNoExpectationWhenItIsInterrupted) {
  for (const char* options : {"--bisect", "--expect agrees", "--expect hangs"}) {
    for (const auto& [signal, status] : {std::pair("INT", 130), {"TERM", 143}, {"HUP", 143}}) {
      const Outcome outcome =
          watch(options, fmt::format("sh -c 'kill -{} $PPID; exec sleep 60'", signal));
      EXPECT_EQ(outcome.status, status) << options << signal << outcome.err;
      fs::remove_all(out());
    }
  }
}

/// As ranks of torch.multiprocessing end by the signal.
TEST_F(WatchCommand, TakesRanksForInterruptedThatEndWithoutAnErrorWhenTheUserInterrupts) {
  const Outcome outcome = watch(
      "", fmt::format("sh -c '{}; kill -INT $PPID; exec sleep 60'", two_ranks("one_training")));
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("INTERRUPTED after step 4; in lockstep until then"));
}

/// Nobody saw the end of the job, but its ranks wrote all the same.
TEST_F(WatchCommand, LeavesAReadableFolderWhenItIsKilled) {
  const std::string kill = fmt::format(kWhenTraining, out().string(),
                                       "job=$(pgrep -P $watched); kill -KILL $watched; kill $job; "
                                       "while kill -0 $job 2>/dev/null; do sleep 0.1; done");
  const Outcome outcome =
      run_shell(fmt::format("env HEALTHY=1 {} watch --out {} -- {} & watched=$!; {}", kLockstep,
                            out().string(), two_ranks("endless_training"), kill));
  const Outcome report = run_shell(kLockstep + " report " + out().string());
  EXPECT_EQ(report.status, 2) << report.out << outcome.err;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("UNDECIDED: in lockstep for "));
  EXPECT_THAT(unwrapped(report.out), HasSubstr("the watch of the job has not ended"));
}

/// The job trains on and ends as it would have; what was observed before is readable.
TEST_F(WatchCommand, OutlivesAFullDisk) {
  const Outcome outcome =
      run_shell(fmt::format("ulimit -f 40; trap '' XFSZ; env STEPS=400 {} watch --out {} -- {}",
                            kLockstep, out().string(), two_ranks("one_training")));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 is no longer observed: Cannot write "));
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("UNDECIDED: in lockstep for "));
  EXPECT_EQ(run_shell(kLockstep + " report " + out().string()).status, 2);
}

/// As a rank leaves it that finds a full disk at its start, or is killed there.
TEST_F(WatchCommand, PassesTheStatusOfAJobWithAnEmptyIndex) {
  const Outcome outcome =
      watch("", fmt::format("sh -c '{}; : > $LOCKSTEP_WATCH_FOLDER/rank-0.index; exit 5'",
                            two_ranks("one_training")));
  EXPECT_EQ(outcome.status, 5) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("rank-0.index"));
  const Outcome report = run_shell(kLockstep + " report " + out().string());
  EXPECT_EQ(report.status, 1) << report.err;
  EXPECT_THAT(unwrapped(report.out), HasSubstr("rank-0.index"));
}

TEST_F(WatchCommand, CountsCollectivesByTheGroupsThatCalledThem) {
  const Outcome outcome = watch("", forked_ranks("several_groups"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const bool has_no_recorder = std::getenv("LOCKSTEP_TEST_PYTHON") &&
                               outcome.err.find("collectives were not counted") != outcome.err.npos;
  if (has_no_recorder) GTEST_SKIP() << "this torch does not count them over Gloo";
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("before the update of step 2: 1 over 1 of 2 ranks, 5 over 2 of 2 ranks"));
}

TEST_F(WatchCommand, SaysInEveryFormatWhetherTheJobWasAsAskedFor) {
  struct Asked {
    const char* options;
    const char* training;
    int status;
    const char* heading;
  };
  const Asked all[] = {
      {"--expect diverges", "FAULT=1", 0,
       "as expected (diverges): gradients were never synchronised"},
      {"--expect diverges", "STEPS=4", 1, "NOT AS EXPECTED (diverges): in lockstep: "},
      {"--expect agrees --min-steps 50", "STEPS=4", 2, "but --min-steps asks for 50"},
      {"--expect not-finite", "FAULT=1", 2,
       "UNDECIDED (expected: not-finite): gradients were never"},
      {"--strict", "STEPS=4", 0, "in lockstep: "}};
  for (const Asked& asked : all) {
    SCOPED_TRACE(asked.options);
    fs::remove_all(out());
    const Outcome outcome =
        watch(fmt::format("{} {}", kReports, asked.options),
              fmt::format("env {} {}", asked.training, two_ranks("one_training")));
    EXPECT_EQ(outcome.status, asked.status) << outcome.err;
    EXPECT_THAT(unwrapped(outcome.err), HasSubstr(asked.heading));
    expect_reports_with(asked.status, asked.heading);
  }
}

TEST_F(WatchCommand, DoesNotFailForKnownFindings) {
  const std::string faulty = "env FAULT=1 " + two_ranks("one_training");
  const std::string known = out().string() + ".known";
  EXPECT_EQ(watch("--label mine", faulty).status, 1);
  const Outcome keys = run_shell(
      fmt::format("{} report {} --format keys | tee {}", kLockstep, out().string(), known));
  EXPECT_THAT(keys.out, HasSubstr("gradients-differ | mine | agree_across_ranks gradient pre_step "
                                  "| *\n"));
  fs::remove_all(out());
  const Outcome again = watch("--label mine --known " + known, faulty);
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr(" found here are in " + known));
  EXPECT_THAT(again.err, Not(HasSubstr("\n  new: ")));
  write_text(known, "");
  const Outcome report =
      run_shell(fmt::format("{} report {} --known {}", kLockstep, out().string(), known));
  EXPECT_EQ(report.status, 1);
  EXPECT_THAT(report.out, HasSubstr("\n  new: gradients-differ | mine | "));
}

TEST_F(WatchCommand, RunsTheJobAgainToMeasureItsNoise) {
  const std::string noisy =
      fmt::format("env NOISE={}.runs {}", out().string(), two_ranks("one_training"));
  const Outcome first = watch("--data --repeat 2", noisy);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err,
              HasSubstr("the job runs again, to measure what does not reproduce (1 of 2)"));
  EXPECT_THAT(first.err,
              HasSubstr("the job runs again, to measure what does not reproduce (2 of 2)"));
  const std::string noise =
      "not reproducible bit for bit: the repetition, compared with the first run: DIFFERENT";
  EXPECT_THAT(unwrapped(first.err), HasSubstr(noise));
  const Outcome again = run_shell(kLockstep + " report " + out().string());
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(unwrapped(again.out), HasSubstr(noise));
  const std::string other = out().string() + ".other";
  EXPECT_EQ(
      run_shell(fmt::format("{} watch --data --out {} -- {}", kLockstep, other, noisy)).status, 0);
  const std::string diff = fmt::format("{} diff {} {}", kLockstep, out().string(), other);
  const Outcome measured = run_shell(diff);
  EXPECT_EQ(measured.status, 0) << measured.out;
  EXPECT_THAT(unwrapped(measured.out),
              HasSubstr("noise: measured with " + (out() / "repeat-1").string() + ", " +
                        (out() / "repeat-2").string()));
  fs::remove_all(out() / "repeat-1");
  EXPECT_EQ(run_shell(diff).status, 1);
}

/// The ranks' copies are moved alike, by other signs in each run, to the next number of their type.
/// From 3 runs on they decide.
TEST_F(WatchCommand, MovesTheInitialWeightsToMeasureRounding) {
  const std::string job = two_ranks("one_training"), folder = out().string();
  const Outcome first = watch("--data --perturb 3", job);
  EXPECT_EQ(first.status, 0) << first.err;
  for (int number = 1; number <= 3; ++number) {
    const RunRecord run = load_record(repetition_folder(out(), number));
    EXPECT_EQ(run.jobs[0].perturbed, 4);
    EXPECT_EQ(verdict_of(run.jobs[0]), Verdict::holds);
    EXPECT_THAT(unwrapped(first.err),
                testing::ContainsRegex(fmt::format(
                    "repeat-{}: 4 parameters moved by a unit in the last place; before step 4 all "
                    "parameters are [5-9][.0-9]*e-08 of their norm",
                    number)));
  }
  EXPECT_EQ(load_record(out()).jobs[0].perturbed, std::nullopt);
  const auto diff = [&](const std::string& variables) {
    const std::string other = folder + ".other";
    fs::remove_all(other);
    run_shell(
        fmt::format("env {} {} watch --data --out {} -- {}", variables, kLockstep, other, job));
    return run_shell(fmt::format("{} diff {} {}", kLockstep, folder, other));
  };
  EXPECT_EQ(diff("A=1").status, 0);
  const Outcome scaled = diff("SCALED_FROM=3");
  EXPECT_EQ(scaled.status, 1);
  EXPECT_THAT(unwrapped(scaled.out), HasSubstr("differ in step 3")) << scaled.out;
  // Two runs with the same signs would say nothing about a third one.
  const Outcome moved =
      run_shell(fmt::format("{0} diff {1}/repeat-1 {1}/repeat-2", kLockstep, folder));
  EXPECT_THAT(unwrapped(moved.out), HasSubstr("initial weights: equal up to rounding: 4 of 4"))
      << moved.out;
}

TEST_F(WatchCommand, SaysThatARunMovedNoWeight) {
  const Outcome outcome = watch("--perturb 1", two_ranks("parameters_alone"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("repeat-1 measures nothing: no module with "
                                                "parameters was called before the first step"));
}

TEST_F(WatchCommand, DoesNotRunAFailedJobAgain) {
  const Outcome outcome = watch("--repeat 1", "sh -c 'echo ran; exit 7'");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(outcome.out, "ran\n");
  EXPECT_THAT(outcome.err, HasSubstr("The job is not run again: it did not finish."));
}

TEST_F(WatchCommand, ComparesWithAnotherJobWhileItRuns) {
  const std::string reference = out().string() + ".reference";
  const std::string job = two_ranks("one_training");
  EXPECT_EQ(
      run_shell(fmt::format("STEPS=8 {} watch --data --out {} -- {}", kLockstep, reference, job))
          .status,
      0);
  const std::string faulty = "env STEPS=16 PAUSE=0.2 SCALED_FROM=2 " + job;
  const Outcome outcome = watch(kReports + " --data --against " + reference, faulty);
  EXPECT_EQ(outcome.status, 1);
  const std::string found =
      "DIFFERENT: all 4 gradients differ in step 2, first that of 0.weight: B is A times 2";
  const std::string text = unwrapped(outcome.err);
  const std::size_t live = text.find("lockstep: compared with " + reference + ": " + found);
  ASSERT_NE(live, text.npos) << text;
  EXPECT_GT(text.find("in lockstep: 4 of 4 parameters"), live);
  EXPECT_GT(text.find(found, live + 200), live);
  expect_reports_with(1);
  EXPECT_THAT(run_shell("ls " + (out() / "job").string()).out, HasSubstr(".safetensors"))
      << "values are stored from the first difference on";
  EXPECT_THAT(
      run_shell(fmt::format("{} diff {} {} --format keys", kLockstep, reference, out().string()))
          .out,
      testing::StartsWith("scaled-by-world-size | two_ranks.py "));
  fs::remove_all(out());
  const Outcome healthy = watch("--data --against " + reference, "env STEPS=8 " + job);
  EXPECT_EQ(healthy.status, 0) << healthy.err;
  EXPECT_THAT(healthy.err, HasSubstr("equal, bit for bit, in 8 steps"));
}

/// A bug of DDP that raises, its fix, and a change that is none. `twice`: the block is used twice.
class FixOfAnError : public WatchCommand, public testing::WithParamInterface<const char*> {};

TEST_P(FixOfAnError, IsFixedNextToTheReference) {
  const std::string bug = GetParam();
  const std::string folder = out().string(), job = two_ranks("raising_training");
  const std::string twice = bug == "checkpoint" ? "TWICE=1" : "TWICE=";
  const auto watched = [&](const std::string& name, const std::string& command) {
    return run_shell(fmt::format("{} watch --data --out {}.{} {} -- env {} {}", kLockstep, folder,
                                 name, name == "before" ? "--expect 'raises=ready only once'" : "",
                                 twice, command));
  };
  EXPECT_EQ(watched("reference", fmt::format("{} {}/tests/watch/raising_training.py",
                                             python_of_trainings(), LOCKSTEP_SOURCE_DIR))
                .status,
            0);
  const Outcome before = watched("before", "BUG=" + bug + " " + job);
  EXPECT_EQ(before.status, 0) << before.err;
  EXPECT_THAT(unwrapped(before.err), HasSubstr("as expected (raises): raised on rank"));
  EXPECT_THAT(
      unwrapped(before.err),
      HasSubstr(" in step 1: RuntimeError: Parameter at index 5 with name block.down.bias has been "
                "marked as ready twice"));
  EXPECT_EQ(watched("after", job).status, 0);
  const auto diff = [&](const std::string& words) {
    return run_shell(fmt::format("cd {0}.reference/.. && {1} diff {2}", folder, kLockstep,
                                 fmt::format(fmt::runtime(words), folder)));
  };
  const Outcome fix = diff("--expect fixed {0}.reference {0}.before {0}.after --format summary");
  EXPECT_EQ(fix.status, 0) << fix.out << fix.err;
  const auto summary = nlohmann::json::parse(fix.out).at("comparisons").at(0);
  EXPECT_EQ(summary.at("outcome"), "FIXED");
  EXPECT_EQ(summary.at("compared").at(0).at("outcome"), "raised");
  EXPECT_THAT(summary.at("compared").at(0).at("sentence").get<std::string>(),
              testing::ContainsRegex(
                  "B raised an error at [a-z/]*raising_training.py:[0-9]+ before its first "
                  "step on ranks 0,1: RuntimeError: Expected to mark a variable ready "
                  "only once. Parameter at index [0-9] with name block.[a-z]+.[a-z]+ "
                  "has been marked as ready twice."));
  EXPECT_EQ(diff("--expect fixed {0}.reference {0}.before {0}.before").status, 1);
  EXPECT_EQ(diff("--expect fixed {0}.reference {0}.after {0}.before").status, 1);
  EXPECT_EQ(diff("--expect fixed {0}.reference {0}.after {0}.after").status, 1);
  EXPECT_EQ(diff("--expect raises {0}.reference {0}.before").status, 0);
  EXPECT_EQ(diff("{0}.reference {0}.before").status, 1);
}

INSTANTIATE_TEST_SUITE_P(Of, FixOfAnError, testing::Values("checkpoint", "tiles"),
                         [](const auto& value) { return std::string(value.param); });

TEST_F(WatchCommand, RefusesAReferenceThatIsNone) {
  const Outcome outcome = watch("--against /etc", "echo ran");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_EQ(outcome.out, "");
}

/// A row and its sketch count as 1344 bytes, so 1 MiB is used up by 780 rows: 12 of the first step,
/// then 8 or more. Ranks that differ keep all of them.
TEST_F(WatchCommand, ObservesFewerStepsOnceTheHistoryIsUsedUp) {
  const Outcome outcome =
      watch("--history 1 --keep 0", "env FAULT=1 STEPS=302 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("one of 100 steps was observed: --history was used up"));
  EXPECT_THAT(unwrapped(outcome.err), Not(HasSubstr("were removed")));
}

/// A history that has room for 130 steps suffices as long as ranks agree. The job takes its time,
/// as real ones do.
TEST_F(WatchCommand, FindsTheExactStepThoughTheRowsOfOldOnesAreRemoved) {
  const Outcome outcome =
      watch("--history 2", "env STEPS=200 FAULT_FROM=190 PAUSE=0.06 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  const std::string report = unwrapped(outcome.err);
  EXPECT_THAT(report, HasSubstr("ranks differ from step 190 on"));
  EXPECT_THAT(report, HasSubstr("steps in which all ranks agreed were removed: --history"));
  EXPECT_THAT(report, Not(HasSubstr("not observed")));
  EXPECT_THAT(report, Not(HasSubstr("one of 100 steps")));
  EXPECT_TRUE(fs::exists(out() / "job" / "rank-1.segment-12.csv"));
  const Outcome again = run_shell(kLockstep + " report --full " + out().string());
  EXPECT_EQ(again.status, 1) << again.err;
  EXPECT_THAT(unwrapped(again.out), HasSubstr("was not called from step 190 on"));
}

TEST_F(WatchCommand, SaysWhichStepsAFirstDifferenceLiesBetween) {
  const Outcome outcome =
      watch("--every 3", "env STEPS=9 FAULT_FROM=5 " + two_ranks("one_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("agreed in step 4 and differ in step 7"));
}

TEST_F(WatchCommand, WatchesTwoJobsAtOnce) {
  const std::string first = (out().parent_path() / "first").string();
  const Outcome outcome = run_shell(fmt::format(
      "{0} watch --out {1} -- {2} & {0} watch --out {3} -- env FAULT=1 {4}; second=$?; wait $!; "
      "echo $? $second",
      kLockstep, first, two_ranks("one_training"), out().string(), two_ranks("one_training")));
  EXPECT_EQ(outcome.out, "0 1\n") << outcome.err;
}

TEST_F(WatchCommand, RefusesAFolderThatCannotBeWritten) {
  const Outcome used = watch("", "true");
  EXPECT_EQ(used.status, 3);
  const Outcome again = watch("", "sh -c 'echo started'");
  EXPECT_EQ(again.status, 64);
  EXPECT_EQ(again.out, "");
  const Outcome unwritable =
      run_shell(kLockstep + " watch --out /proc/run -- sh -c 'echo started'");
  EXPECT_EQ(unwritable.status, 64);
  EXPECT_EQ(unwritable.out, "");
}

/// The job would go on for ever. Once ranks differ they store values, so the difference is exact
/// from a later step on.
TEST_F(WatchCommand, EndsAJobWhoseRanksDifferIfThatIsAskedFor) {
  const Outcome outcome = watch("--fail-fast --keep 16", two_ranks("endless_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("ranks differ from step 20 on: weight"));
}

/// A look at reductions, at which all was right, is no reason to look at ranks that differ later.
TEST_F(WatchCommand, TellsADifferenceAtOnceThoughReductionsWereJudgedBefore) {
  const Outcome outcome = watch(
      "--fail-fast", "env SLEEP=1 SLOW_FROM=8 FAULT_FROM=12 " + two_ranks("endless_training"));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("ranks differ from step 12 on: weight"));
  EXPECT_LT(load_record(out()).jobs[0].steps.last, 16);
}

/// Before the step after the difference there is time for the ranks to be asked.
TEST_F(WatchCommand, StoresTheValuesOfTheFirstDifferenceIfTheyWereCopied) {
  const std::string job = "env SLEEP=6 FAULT_FROM=3 " + two_ranks("endless_training");
  const Outcome copied = watch("--fail-fast --keep 16 --keep-before -v", job);
  EXPECT_EQ(copied.status, 1) << copied.err;
  EXPECT_TRUE(fs::exists(out() / "job" / "rank-0.step-3.safetensors")) << copied.err;
  EXPECT_THAT(unwrapped(copied.err), HasSubstr("weight in step 3, 32 of 32 elements, by up to "));
  EXPECT_THAT(copied.err, HasSubstr("lockstep: --keep-before: each rank copies up to 0.0 MiB of"));
  fs::remove_all(out());
  const Outcome uncopied = watch("--fail-fast --keep 16", job);
  EXPECT_EQ(uncopied.status, 1) << uncopied.err;
  EXPECT_FALSE(fs::exists(out() / "job" / "rank-0.step-3.safetensors"));
  EXPECT_TRUE(fs::exists(out() / "job" / "rank-0.step-4.safetensors"));
}

}  // namespace
}  // namespace lockstep
