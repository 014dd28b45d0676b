// A job on two machines, one watch each. The machines are network namespaces.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <string>

#include "tests/command.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr int kSkipped = 77;

/// hanging_training.py with a rank on each machine. `hang`: as HANG there.
Outcome run_on_two_machines(const fs::path& shared, const std::string& hang,
                            const std::string& options) {
  return run_shell(fmt::format(
      "{0}/tests/watch/two_machines.sh sh -c 'HANG={1} STARTED={3}-started RANK=NODE WORLD_SIZE=2 "
      "LOCAL_RANK=0 "
      "LOCAL_WORLD_SIZE=1 exec {2} watch --out {3} --node machineNODE --stall 6 {4} -- {5} "
      "{0}/tests/watch/hanging_training.py'",
      LOCKSTEP_SOURCE_DIR, hang, LOCKSTEP_PROGRAM, shared.string(), options, LOCKSTEP_PYTHON));
}

/// The same, started by torchrun.
Outcome run_by_torchrun(const fs::path& folder, const std::string& hang,
                        const std::string& options) {
  return run_shell(fmt::format(
      "{0}/tests/watch/two_machines.sh sh -c 'HANG={1} STARTED={3}-started exec {2} watch --out "
      "{3} --node NODE "
      "--stall 6 "
      "{4} -- {5} -m torch.distributed.run --nnodes 2 --node-rank NODE --nproc-per-node 1 "
      "--master-addr $MASTER_ADDR --master-port $MASTER_PORT {0}/tests/watch/hanging_training.py'",
      LOCKSTEP_SOURCE_DIR, hang, LOCKSTEP_PROGRAM, folder.string(), options, LOCKSTEP_PYTHON));
}

Outcome report_in(const fs::path& folder, const std::string& arguments) {
  return run_shell(
      fmt::format("cd {} && {} report {}", folder.string(), LOCKSTEP_PROGRAM, arguments));
}

void expect_lockstep_together_only(const fs::path& folder) {
  const Outcome whole = report_in(folder, "healthy");
  EXPECT_EQ(whole.status, 0) << whole.out << whole.err;
  EXPECT_THAT(
      unwrapped(whole.out),
      HasSubstr("in lockstep: 4 of 4 parameters compared on 2 of 2 ranks, 6 steps, 1 to 6"));
  const Outcome one = report_in(folder, "healthy/machine0");
  EXPECT_EQ(one.status, 2) << one.out << one.err;
  EXPECT_THAT(unwrapped(one.out), HasSubstr("UNDECIDED"));
  EXPECT_THAT(unwrapped(one.out), HasSubstr("ranks finish: rank 1 ran on other machines"));
}

void expect_difference(const fs::path& folder) {
  for (const char* folders : {"apart", "apart/machine1 apart/machine0"}) {
    const Outcome whole = report_in(folder, folders);
    EXPECT_EQ(whole.status, 1) << whole.out << whole.err;
    EXPECT_THAT(unwrapped(whole.out), HasSubstr("0.weight"));
    EXPECT_THAT(unwrapped(whole.out), HasSubstr("step 3"));
  }
}

/// Each has rank 0.
void expect_no_mixture(const fs::path& folder) {
  const Outcome mixed = report_in(folder, "healthy/machine0 apart/machine0");
  EXPECT_EQ(mixed.status, 2);
  EXPECT_THAT(mixed.out, HasSubstr("healthy/machine0\n"));
  EXPECT_THAT(mixed.out, HasSubstr("apart/machine0\n"));
}

void expect_hang(const fs::path& folder) {
  const Outcome whole = report_in(folder, "asleep/0 asleep/1");
  EXPECT_EQ(whole.status, 1) << whole.out << whole.err;
  EXPECT_THAT(unwrapped(whole.out),
              HasSubstr("Rank 1 never entered collective 8 of the group world in step 3"));
  EXPECT_THAT(unwrapped(whole.out), HasSubstr("in load_next_batch"));
  EXPECT_THAT(whole.out, Not(HasSubstr("elsewhere")));
}

/// What ranks wrote that the script had to end.
std::string stacks_in(const fs::path& folder) {
  return run_shell(fmt::format("tail -n 40 {}/*/*/*/rank-*.stacks", folder.string())).out;
}

// One test, because ctest counts those that may skip themselves one by one, and the jobs run at the
// same time.
TEST(JobOnTwoMachines, IsJudgedAsAWhole) {
  const TemporaryFolder folder;
  const auto start = [&](const auto& run, const char* name, const char* hang, const char* how) {
    return std::async(std::launch::async, run, folder.path() / name, hang, how);
  };
  auto healthy = start(run_on_two_machines, "healthy", "", "");
  auto apart = start(run_on_two_machines, "apart", "apart", "");
  auto asleep = start(run_by_torchrun, "asleep", "asleep", "--on-stall kill");
  const Outcome in_lockstep = healthy.get(), differing = apart.get(), hanging = asleep.get();
  if (in_lockstep.status == kSkipped) GTEST_SKIP() << "network namespaces cannot be made here";
  ASSERT_EQ(in_lockstep.status, 0) << in_lockstep.err << stacks_in(folder.path());
  // No machine sees both ranks.
  ASSERT_EQ(differing.status, 0) << differing.err << stacks_in(folder.path());
  ASSERT_EQ(hanging.status, 1) << hanging.err << stacks_in(folder.path());
  expect_lockstep_together_only(folder.path());
  expect_difference(folder.path());
  expect_no_mixture(folder.path());
  expect_hang(folder.path());
}

}  // namespace
}  // namespace lockstep
