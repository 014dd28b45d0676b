#include "harness/job/join_machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/stall.h"
#include "tests/temporary_folder.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kRanks = 4;

/// The run of a machine that has some of four ranks.
JoinedRun run_of_machine(const std::filesystem::path& folder, const std::vector<int>& elsewhere) {
  JoinedRun machine{{folder}, {}};
  JobRecord& job = machine.run.jobs.emplace_back();
  job.id = folder.filename().string();
  job.folder = "job";
  job.world_size = job.processes = kRanks;
  job.rendezvous = 7;
  job.elsewhere = elsewhere;
  for (int rank = 0; rank < kRanks; ++rank) {
    RankExit& end = job.exits.emplace_back();
    end.rank = rank;
    end.error = "on " + job.id;
  }
  return machine;
}

std::vector<JoinedRun> two_machines() {
  return {run_of_machine("a", {2, 3}), run_of_machine("b", {0, 1})};
}

TEST(JoinMachines, MakesOneJobOfThoseWithOtherRanks) {
  const auto joined = join_machines(two_machines());
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_THAT(joined[0].folders, ElementsAre("a", "b"));
  EXPECT_EQ(joined[0].root(), "");
  const JobRecord& job = joined[0].run.jobs[0];
  EXPECT_THAT(job.elsewhere, IsEmpty());
  ASSERT_EQ(job.parts.size(), 2U);
  EXPECT_EQ(job.parts[1].folder, "b/job");
  EXPECT_THAT(job.parts[1].ranks, ElementsAre(2, 3));
  EXPECT_EQ(part_with(job, 3)->id, "b");
  EXPECT_EQ(job.exits[1].error, "on a");
  EXPECT_EQ(job.exits[2].error, "on b");
}

TEST(JoinMachines, JoinsEarlierAttemptsThatBothSaw) {
  auto runs = two_machines();
  for (JoinedRun& one : runs) {
    JobRecord& job = one.run.jobs[0];
    JobRecord earlier = job;
    job.folder = "job-2";
    job.earlier_attempts = {earlier};
  }
  const auto once = runs;
  const auto joined = join_machines(runs);
  ASSERT_EQ(joined.size(), 1U);
  const JobRecord& job = joined[0].run.jobs[0];
  EXPECT_EQ(job.parts[1].folder, "b/job-2");
  ASSERT_EQ(job.earlier_attempts.size(), 1U);
  const JobRecord& earlier = job.earlier_attempts[0];
  ASSERT_EQ(earlier.parts.size(), 2U);
  EXPECT_EQ(earlier.folder, "a/job");
  EXPECT_EQ(earlier.parts[1].folder, "b/job");
  EXPECT_EQ(earlier.exits[3].error, "on b");

  // A machine that joined later, or saw nothing of one.
  for (const bool is_unseen : {false, true}) {
    auto other = once;
    std::vector<JobRecord>& attempts = other[1].run.jobs[0].earlier_attempts;
    if (is_unseen) {
      attempts[0].world_size = 0;
      attempts[0].exits.clear();
    } else {
      attempts.clear();
    }
    const auto apart = join_machines(other);
    ASSERT_EQ(apart.size(), 1U);
    EXPECT_THAT(apart[0].run.jobs[0].earlier_attempts, IsEmpty());
    EXPECT_THAT(apart[0].run.notes, ElementsAre(HasSubstr("each has them")));
  }
}

TEST(JoinMachines, KnowsThatAMachineIsMissing) {
  auto runs = two_machines();
  runs[1].run.jobs[0].elsewhere = {0, 1, 3};
  const auto joined = join_machines(std::move(runs));
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_THAT(joined[0].run.jobs[0].elsewhere, ElementsAre(3));
}

TEST(JoinMachines, LeavesOtherJobsApart) {
  auto other_port = two_machines();
  other_port[1].run.jobs[0].rendezvous = 8;
  EXPECT_EQ(join_machines(std::move(other_port)).size(), 2U);
  auto other_size = two_machines();
  other_size[1].run.jobs[0].world_size = 5;
  EXPECT_EQ(join_machines(std::move(other_size)).size(), 2U);
  EXPECT_EQ(join_machines({run_of_machine("a", {2, 3}), run_of_machine("b", {2, 3})}).size(), 2U);
  EXPECT_EQ(join_machines({run_of_machine("a", {2, 3}), run_of_machine("b", {0})}).size(), 2U);
  EXPECT_EQ(join_machines({run_of_machine("a", {}), run_of_machine("b", {})}).size(), 2U);
}

TEST(JoinMachines, AddsTrafficStepsAndDoubts) {
  auto runs = two_machines();
  runs[0].run.jobs[0].traffic = {{{0, 1}, 4, 1, 9, 2}};
  runs[1].run.jobs[0].traffic = {{{2, 3}, 4, 1, 9, 2}};
  runs[0].run.jobs[0].skipped_steps = {2, 5};
  runs[1].run.jobs[0].skipped_steps = {5, 8};
  runs[0].run.jobs[0].skipped_by = {{{2, 5}, {0}}, {{5}, {1}}};
  runs[1].run.jobs[0].skipped_by = {{{5}, {2}}, {{5, 8}, {3}}};
  runs[1].run.jobs[0].thinned_after = 9;
  runs[0].run.jobs[0].captured_updates = 1;
  runs[1].run.jobs[0].unsealed = "it was killed";
  runs[0].run.environment.torch_version = "2.11.0";
  runs[1].run.environment.torch_version = "2.6.0";
  const auto joined = join_machines(std::move(runs));
  const JobRecord& job = joined[0].run.jobs[0];
  ASSERT_EQ(job.traffic.size(), 1U);
  EXPECT_THAT(job.traffic[0].ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(job.skipped_steps, ElementsAre(2, 5, 8));
  EXPECT_THAT(job.skipped_by, ElementsAre(StepsOfRanks{{2, 5}, {0}}, StepsOfRanks{{5}, {1, 2}},
                                          StepsOfRanks{{5, 8}, {3}}));
  EXPECT_EQ(job.thinned_after, 9);
  EXPECT_EQ(job.captured_updates, 1);
  EXPECT_EQ(job.unsealed, "b: it was killed");
  EXPECT_THAT(joined[0].run.notes,
              ElementsAre(HasSubstr("different torches: 2.11.0 and, in b, 2.6.0")));
}

/// The ranks of the second machine sleep, and those of the first wait for them.
TEST(JoinMachines, FindsAHangOfBoth) {
  const TemporaryFolder folder;
  std::vector<JoinedRun> runs = {run_of_machine(folder.path() / "a", {2, 3}),
                                 run_of_machine(folder.path() / "b", {0, 1})};
  for (const auto& [name, ranks, is_open] :
       {std::tuple("a", std::vector{0, 1}, true), std::tuple("b", std::vector{2, 3}, false)}) {
    std::filesystem::create_directories(folder.path() / name / "job");
    Stall stall;
    stall.world_size = kRanks;
    stall.is_open = is_open;
    for (const int rank : ranks) stall.ranks.push_back({rank, StalledState::answered, 2, "main"});
    write_stall(folder.path() / name / "job", stall);
    for (JoinedRun& run : runs) {
      for (RankExit& end : run.run.jobs[0].exits) end.kind = ExitKind::unfinished;
    }
  }
  const auto joined = join_machines(std::move(runs));
  const JobRecord& job = joined[0].run.jobs[0];
  EXPECT_EQ(job.claims, std::vector{collectives_match()});
  for (const RankExit& end : job.exits) EXPECT_EQ(end.cause, ExitCause::no_progress) << end.rank;
}

}  // namespace
}  // namespace lockstep
