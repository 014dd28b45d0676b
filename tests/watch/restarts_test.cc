// Jobs whose launcher begins their ranks again: `torchrun --max-restarts`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/record/run_folder.h"
#include "reports/record/json.h"
#include "tests/command.h"
#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class RestartedJob : public WatchCommand {
 protected:
  Outcome watch_restarted(const std::string& options, const std::string& variables) const {
    return watch(options, fmt::format("env DIR={} {} {} -m torch.distributed.run --standalone "
                                      "--nproc-per-node 2 --max-restarts 1 "
                                      "{}/tests/watch/restarted_training.py",
                                      meetings_.path().string(), variables, python_of_trainings(),
                                      LOCKSTEP_SOURCE_DIR));
  }

  Outcome report(const std::string& options = "") const {
    return run_shell(fmt::format("{} report {} {}", kLockstep, out().string(), options));
  }

 private:
  TemporaryFolder meetings_;
};

/// Ranks that were apart and killed in an earlier attempt do not fail the job: torchrun went on
/// without it.
TEST_F(RestartedJob, IsJudgedByItsLastAttempt) {
  const Outcome outcome = watch_restarted(kReports, "DIFFER=1 FAIL=kill");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("lockstep: attempt 2: the launcher has begun the ranks again\n"));
  EXPECT_THAT(
      unwrapped(outcome.err),
      HasSubstr("in lockstep: 2 of 2 parameters compared on 2 of 2 ranks, 4 steps, 1 to 4"));
  const std::string attempt = "attempt 1 of 2 (3 steps, 1 to 3): ";
  EXPECT_THAT(unwrapped(outcome.err),
              ContainsRegex(
                  "attempt 1 of 2 .3 steps, 1 to 3.: KILLED: rank 1, by SIGKILL .out of memory.., "
                  "after step 3, after a wrong step 2; [0-9]+ MB at its last step; "
                  "ranks differ from step 2 on: bias"));
  expect_reports_with(0, "in lockstep: ");
  const auto earlier =
      nlohmann::json::parse(report("--format summary").out).at("jobs").at(0).at("earlier_attempts");
  ASSERT_EQ(earlier.size(), 1U);
  EXPECT_EQ(earlier[0].at("verdict"), "violated");
  EXPECT_THAT(earlier[0].at("sentence").get<std::string>(),
              HasSubstr("KILLED: rank 1, by SIGKILL"));

  RunRecord run = load_record(out());
  const JobRecord job = run.jobs.at(0);
  EXPECT_EQ(job.folder, "job-2");
  ASSERT_EQ(job.earlier_attempts.size(), 1U);
  EXPECT_EQ(job.earlier_attempts[0].folder, "job");
  EXPECT_EQ(job.earlier_attempts[0].symptom.wrong_step, 2);
  EXPECT_TRUE(job.manifest && job.earlier_attempts[0].manifest);

  // A pack has the files of both. `diff` takes the last one.
  const std::string pack = out().string() + ".tar.gz";
  EXPECT_EQ(run_shell(fmt::format("{} pack {} --out {}", kLockstep, out().string(), pack)).status,
            0);
  EXPECT_THAT(unwrapped(run_shell(fmt::format("{} report {}", kLockstep, pack)).out),
              HasSubstr(attempt + "KILLED: rank 1"));
  const Outcome diff = run_shell(fmt::format("{0} diff {1} {1}", kLockstep, out().string()));
  EXPECT_THAT(unwrapped(diff.out), HasSubstr("in 4 steps")) << diff.out << diff.err;

  // A changed file of an earlier attempt is told, too.
  const auto journal = out() / "job" / "rank-0.csv";
  const std::string rows = text_of(journal);
  write_text(journal, rows + " ");
  EXPECT_THAT(unwrapped(report().out), HasSubstr(attempt + "FAILED: rank-0.csv"));
  write_text(journal, rows);

  // The record of a watch that was killed is the one that it began with.
  JobRecord begun;
  begun.id = job.earlier_attempts[0].id;
  begun.title = job.title;
  begun.folder = "job";
  run.jobs = {begun};
  run.planned = counts_of(run);
  write_text(out() / "record.json", render_json(run));
  const Outcome again = report();
  EXPECT_THAT(unwrapped(again.out), HasSubstr("4 steps, 1 to 4"));
  EXPECT_THAT(unwrapped(again.out), HasSubstr(attempt + "KILLED: rank 1"));
}

TEST_F(RestartedJob, FailsAsItsLastAttemptDoes) {
  const Outcome outcome = watch_restarted(kReports, "ATTEMPTS=2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(
      unwrapped(outcome.err),
      HasSubstr("RAISED on rank 1 after step 3: ValueError: corrupt shard, attempt 1, at "));
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("attempt 1 of 2 (3 steps, 1 to 3): RAISED on rank 1 after step 3: "
                        "ValueError: corrupt shard, attempt 0"));
  expect_reports_with(1, "RAISED on rank 1 after step 3");
  EXPECT_THAT(unwrapped(report("-vv").out),
              testing::ContainsRegex("stack of rank 1, innermost first: <module>, "
                                     "[a-z/]*restarted_training.py:[0-9]+ "));
}

TEST_F(RestartedJob, TellsTheErrorOfAnAttemptWithoutAStep) {
  const Outcome outcome = watch_restarted("", "FAIL=first");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("attempt 1 of 2 (no step was observed): RAISED on rank 1 before the first "
                        "step: ValueError: no checkpoint, attempt 0"));
}

}  // namespace
}  // namespace lockstep
