// Jobs that their own ranks begin and end, through the C interface of the library.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/job/attempts.h"
#include "harness/record/new_job.h"
#include "harness/record/run_folder.h"
#include "harness/verdict/judge_run.h"
#include "harness/watch/lockstep_watch.h"
#include "reports/record/result.h"
#include "tests/command.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CreatedJob : public testing::Test {
 protected:
  fs::path run() const { return folder_.path() / "run"; }

  lockstep_watch_job job_of(int rank, int world_size = 2) const {
    return {name_.c_str(), "train.py token=secret", 0, rank, world_size};
  }

  /// What a rank joined; empty: it was refused.
  std::optional<lockstep_watch_joined> joined(const lockstep_watch_job& job) const {
    lockstep_watch_joined joined = {};
    if (lockstep_watch_create(&job, &joined) < 0) return {};
    return joined;
  }

  std::string refusal_of(const lockstep_watch_job& job) const {
    return joined(job) ? "none" : lockstep_watch_error();
  }

  lockstep_watch* opened(int rank, int world_size = 2) const {
    const auto job = joined(job_of(rank, world_size));
    return job ? opened_in(*job, rank, world_size) : nullptr;
  }

  static lockstep_watch* opened_in(const lockstep_watch_joined& job, int rank, int world_size = 2) {
    lockstep_watch_options options = {};
    options.folder = job.folder;
    options.job = job.job;
    options.rank = rank;
    options.world_size = world_size;
    options.is_created = 1;
    return lockstep_watch_open(&options);
  }

  /// Step 1, with a gradient of `value`.
  static void train(lockstep_watch* watch, float value) {
    EXPECT_EQ(lockstep_watch_begin_step(watch, 1), 0) << lockstep_watch_error();
    observe(watch, "pre_step", "gradient", value);
  }

  static void observe(lockstep_watch* watch, const char* phase, const char* kind, float value) {
    const std::int64_t shape = 1;
    lockstep_watch_tensor tensor = {};
    tensor.phase = phase;
    tensor.kind = kind;
    tensor.name = "weight";
    tensor.dtype = "float32";
    tensor.dimensions = 1;
    tensor.local_shape = &shape;
    const lockstep_watch_value values = {lockstep_watch_describe(watch, &tensor), 0, &value,
                                         nullptr};
    EXPECT_EQ(lockstep_watch_observe(watch, &values, 1), 0) << lockstep_watch_error();
  }

  static void finish(lockstep_watch* watch) {
    EXPECT_EQ(lockstep_watch_end(watch, nullptr), 0) << lockstep_watch_error();
    EXPECT_EQ(lockstep_watch_close(watch), 0) << lockstep_watch_error();
  }

  JobRecord judged() const {
    RunRecord record = load_record(run());
    take_up(record, run());
    judge_run(record, run());
    return record.jobs[0];
  }

  TemporaryFolder folder_;
  std::string name_ = (folder_.path() / "run").string();
};

TEST_F(CreatedJob, IsOneForAllRanksThatStartAtOnce) {
  constexpr int kRanks = 16;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (::fork() == 0) {
      const auto job = joined(job_of(rank, kRanks));
      const std::string id = job ? job->job : "none  ";
      ::_exit(::write(ends[1], id.data(), 6) == 6 ? 0 : 1);
    }
  }
  std::set<std::string> ids;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::array<char, 6> id{};
    ASSERT_EQ(::read(ends[0], id.data(), id.size()), 6);
    ids.emplace(id.data(), id.size());
    ::wait(nullptr);
  }
  EXPECT_EQ(ids, std::set<std::string>{load_record(run()).jobs[0].id});
  // Nothing else stays.
  EXPECT_EQ(std::distance(fs::directory_iterator(run()), {}), 2);
}

TEST_F(CreatedJob, IsCompleteOnceItsLastRankHasEnded) {
  lockstep_watch* const first = opened(0);
  lockstep_watch* const second = opened(1);
  ASSERT_TRUE(first && second) << lockstep_watch_error();
  train(first, 1);
  train(second, 1);
  finish(first);
  const JobRecord open = judged();
  EXPECT_EQ(verdict_of(open), Verdict::undecided);
  EXPECT_EQ(open.unsealed, "not all of its ranks have ended their watch");
  finish(second);
  const JobRecord job = judged();
  EXPECT_EQ(job.unsealed, "");
  EXPECT_TRUE(job.manifest);
  EXPECT_TRUE(job.faults.empty());
  EXPECT_EQ(job.title, "train.py token=***");
  EXPECT_EQ(job.world_size, 2);
  EXPECT_EQ(job.results.at(1).verdict, Verdict::holds) << job.results.at(1).reason;
}

/// Nobody chose it: it is the command line of the training.
TEST_F(CreatedJob, HasATitleOfBoundedLength) {
  const std::string title = "train.py " + std::string(100'000, 'a');
  lockstep_watch_job job = job_of(0);
  job.title = title.c_str();
  ASSERT_TRUE(joined(job)) << lockstep_watch_error();
  EXPECT_LE(load_record(run()).jobs[0].title.size(), kMostOfATitle + 6);
  EXPECT_EQ(load_record(run()).jobs[0].label, "") << "the title then";
}

TEST_F(CreatedJob, HasALabelForKeysWithoutSecrets) {
  lockstep_watch_job job = job_of(0);
  job.label = "train.py token=secret";
  ASSERT_TRUE(joined(job)) << lockstep_watch_error();
  EXPECT_EQ(load_record(run()).jobs[0].label, "train.py token=***");
}

TEST_F(CreatedJob, HasAFaultIfItsFilesAreChangedAfterwards) {
  for (const int rank : {0, 1}) {
    lockstep_watch* const watch = opened(rank);
    ASSERT_TRUE(watch) << lockstep_watch_error();
    train(watch, 1);
    finish(watch);
  }
  const fs::path journal = run() / "job" / "rank-1.csv";
  write_text(journal, text_of(journal) + " ");
  EXPECT_EQ(verdict_of(judged()), Verdict::violated);
}

TEST_F(CreatedJob, IsUndecidedIfARankWasKilled) {
  if (::fork() == 0) {
    lockstep_watch* const watch = opened(0);
    if (watch) train(watch, 1);
    ::_exit(0);
  }
  ::wait(nullptr);
  lockstep_watch* const second = opened(1);
  ASSERT_TRUE(second) << lockstep_watch_error();
  train(second, 1);
  finish(second);
  EXPECT_EQ(verdict_of(judged()), Verdict::undecided);
}

TEST_F(CreatedJob, StoresValuesOnceAReportFoundThatRanksDiffer) {
  lockstep_watch* const first = opened(0);
  lockstep_watch* const second = opened(1);
  ASSERT_TRUE(first && second) << lockstep_watch_error();
  train(first, 1);
  train(second, 2);
  for (lockstep_watch* const watch : {first, second}) lockstep_watch_end_step(watch);
  EXPECT_EQ(lockstep_watch_keeps(first), 0);
  const Outcome report = run_shell(fmt::format("{} report {}", LOCKSTEP_PROGRAM, name_));
  EXPECT_EQ(report.status, 1) << report.out << report.err;
  EXPECT_EQ(lockstep_watch_keeps(first), 1);
  finish(first);
  finish(second);
}

TEST_F(CreatedJob, TellsTheErrorOfARank) {
  for (const int rank : {0, 1}) {
    lockstep_watch* const watch = opened(rank);
    ASSERT_TRUE(watch) << lockstep_watch_error();
    train(watch, 1);
    EXPECT_EQ(lockstep_watch_end(watch, rank == 0 ? nullptr : "ValueError: no batch"), 0);
    EXPECT_EQ(lockstep_watch_close(watch), 0);
  }
  const JobRecord job = judged();
  EXPECT_EQ(verdict_of(job), Verdict::violated);
  EXPECT_EQ(job.exits.at(1).error, "ValueError: no batch");
  EXPECT_EQ(job.symptom.text, "raised on rank 1 in step 1: ValueError: no batch");
}

/// Steps begin with the update, so an error in the forward pass of step 2 comes after step 1.
TEST_F(CreatedJob, TellsWhetherTheUpdateOfTheLastStepHadEnded) {
  for (const int rank : {0, 1}) {
    lockstep_watch* const watch = opened(rank);
    ASSERT_TRUE(watch) << lockstep_watch_error();
    train(watch, 1);
    observe(watch, "post_step", "parameter", 2);
    EXPECT_EQ(lockstep_watch_end(watch, rank == 0 ? nullptr : "ValueError: no batch"), 0);
    EXPECT_EQ(lockstep_watch_close(watch), 0);
  }
  const JobRecord job = judged();
  EXPECT_EQ(job.symptom.text, "raised on rank 1 after step 1: ValueError: no batch");
  EXPECT_TRUE(job.exits.at(1).is_after_step);
  EXPECT_FALSE(job.exits.at(0).is_after_step);
}

TEST_F(CreatedJob, IsNotThatOfAnEarlierOne) {
  lockstep_watch* const watch = opened(0);
  ASSERT_TRUE(watch) << lockstep_watch_error();
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("it holds an earlier job, and results are never "
                                               "overwritten. Name a new folder."));
  // A rank that does not know its number yet may be another one, until one has ended.
  EXPECT_TRUE(joined(job_of(0, 0)));
  finish(watch);
  EXPECT_THAT(refusal_of(job_of(0, 0)), HasSubstr("it holds an earlier job"));
  lockstep_watch* const other = opened(1);
  ASSERT_TRUE(other) << lockstep_watch_error();
  finish(other);
  EXPECT_THAT(refusal_of(job_of(1)), HasSubstr("it holds an earlier job"));
}

/// A process of a rank that torchrun may begin again, and has begun again so often. `run`: the id
/// of its rendezvous.
template <class Work>
void as_restarted(int restarts, const Work& work, const char* run = "none") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TORCHELASTIC_MAX_RESTARTS", "3", 1);
    ::setenv("TORCHELASTIC_RESTART_COUNT", std::to_string(restarts).c_str(), 1);
    ::setenv("TORCHELASTIC_RUN_ID", run, 1);
    ::_exit(work() && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// torchrun counts only the attempts that failed on the same machine, so ranks of another one are
/// begun again with the count of the first attempt.
TEST_F(CreatedJob, HasFilesForEachAttempt) {
  for (const bool is_first_sealed : {false, true}) {
    name_ = (folder_.path() / (is_first_sealed ? "sealed" : "run")).string();
    for (const int rank : {0, 1}) {
      as_restarted(0, [&] {
        lockstep_watch* const watch = opened(rank);
        if (watch) train(watch, static_cast<float>(rank));
        if (watch && is_first_sealed) {
          EXPECT_EQ(lockstep_watch_end(watch, "ValueError: no batch"), 0);
          EXPECT_EQ(lockstep_watch_close(watch), 0);
        }
        return watch != nullptr;
      });
    }
    as_restarted(1, [&] {
      lockstep_watch* const watch = opened(0);
      if (watch) train(watch, 1);
      if (watch) finish(watch);
      return watch && refusal_of(job_of(0)).find("it holds an earlier job") != std::string::npos;
    });
    as_restarted(0, [&] {
      lockstep_watch* const watch = opened(1);
      if (watch) train(watch, 1);
      if (watch) finish(watch);
      return watch != nullptr;
    });
    RunRecord record = load_record(name_);
    take_up(record, name_);
    judge_run(record, name_);
    const JobRecord& job = record.jobs[0];
    EXPECT_EQ(job.folder, "job-2");
    EXPECT_EQ(job.unsealed, "");
    EXPECT_TRUE(job.manifest);
    EXPECT_EQ(job.results.at(1).verdict, Verdict::holds) << job.symptom.text;
    ASSERT_EQ(job.earlier_attempts.size(), 1U);
    EXPECT_EQ(job.earlier_attempts[0].results.at(1).verdict, Verdict::violated);
    EXPECT_TRUE(job.earlier_attempts[0].manifest);
  }
}

/// A torchrun that is started anew begins another job, whether or not its ranks failed before.
TEST_F(CreatedJob, IsNoAttemptOfThatOfAnotherLauncher) {
  const auto trains = [&] {
    lockstep_watch* const watch = opened(0);
    if (watch) train(watch, 1);
    return watch != nullptr;
  };
  const auto is_refused = [&] {
    return refusal_of(job_of(0)).find("it holds an earlier job") != std::string::npos;
  };
  as_restarted(0, trains, "first");
  as_restarted(0, is_refused, "second");
  as_restarted(1, is_refused, "second");
  as_restarted(1, is_refused);
  as_restarted(1, trains, "first");
  EXPECT_TRUE(is_refused());
  EXPECT_FALSE(fs::exists(run() / "job-3"));
}

/// A rank that was restarted, or an independent training.
TEST_F(CreatedJob, ObservesTheFirstProcessOfARankAlone) {
  const auto job = joined(job_of(0));
  ASSERT_TRUE(job);
  lockstep_watch* const watch = opened_in(*job, 0);
  ASSERT_TRUE(watch) << lockstep_watch_error();
  EXPECT_EQ(opened_in(*job, 0), nullptr);
  EXPECT_THAT(lockstep_watch_error(), HasSubstr("Another process of this job was rank 0"));
  finish(watch);
}

TEST_F(CreatedJob, HasRanksThatWereStartedAlike) {
  EXPECT_TRUE(joined(job_of(0)));
  EXPECT_THAT(refusal_of(job_of(2, 4)), HasSubstr("its job has 2 ranks, and this one 4"));
  lockstep_watch_job other = job_of(1);
  other.agree_every = 4;
  EXPECT_THAT(refusal_of(other), HasSubstr("another rank began the job with another agree_every"));
}

TEST_F(CreatedJob, RefusesRanksOutsideOfItsWorld) {
  EXPECT_THAT(refusal_of(job_of(2)),
              HasSubstr("the rank cannot be '2': give a whole number from 0 to 1."));
  EXPECT_THAT(refusal_of(job_of(-1)), HasSubstr("the rank cannot be '-1'"));
  EXPECT_THAT(refusal_of(job_of(0, 4097)), HasSubstr("the world size cannot be '4097'"));
  EXPECT_FALSE(fs::exists(run()));
  EXPECT_EQ(opened(0, 0), nullptr);
  EXPECT_THAT(lockstep_watch_error(), HasSubstr("the rank cannot be '0'"));
}

TEST_F(CreatedJob, RefusesFoldersOfOthers) {
  name_ = "/proc/run";
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("Cannot write /proc/run: "));
  name_ = (folder_.path() / "file").string();
  write_text(name_, "");
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("Cannot write "));
  name_ = folder_.path().string();
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("it is not empty"));
  name_ = run().string();
  fs::create_directories(run());
  write_text(run() / "record.json", "{\"schema\": ");
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("record.json"));
}

TEST_F(CreatedJob, RefusesTheFolderOfAWatch) {
  const Outcome watched =
      run_shell(fmt::format("{} watch --out {} -- true", LOCKSTEP_PROGRAM, name_));
  EXPECT_EQ(watched.status, 3) << watched.err;
  EXPECT_THAT(refusal_of(job_of(0)), HasSubstr("it holds an earlier job"));
}

}  // namespace
}  // namespace lockstep
