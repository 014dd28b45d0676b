#include "harness/launch/launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "reports/base/error.h"
#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// PATH holds one folder, with the programs of a test.
class FindLauncher : public testing::Test {
 protected:
  FindLauncher() : path_(std::getenv("PATH")) {
    ::setenv("PATH", folder_.path().c_str(), /*overwrite=*/1);
  }
  ~FindLauncher() override { ::setenv("PATH", path_.c_str(), /*overwrite=*/1); }

  std::string add(const std::string& name, const std::string& script) const {
    const fs::path program = folder_.path() / name;
    write_text(program, script);
    fs::permissions(program, fs::perms::owner_all);
    return program;
  }
  static Launcher find(const std::string& name, milliseconds limit = milliseconds(60'000)) {
    return find_launcher(name, limit);
  }
  fs::path folder() const { return folder_.path(); }

 private:
  std::string path_;
  TemporaryFolder folder_;
};

TEST_F(FindLauncher, FindsNothingOnAnEmptyPath) {
  EXPECT_EQ(find("mpirun").path, "");
  ::unsetenv("PATH");
  EXPECT_EQ(find("mpirun").path, "");
}

TEST_F(FindLauncher, PassesOverWhatIsNoProgram) {
  write_text(folder() / "mpirun", "no program");
  fs::create_directory(folder() / "srun");
  EXPECT_EQ(find("mpirun").path, "");
  EXPECT_EQ(find("srun").path, "");
}

TEST_F(FindLauncher, TellsTheMpisApart) {
  const std::map<std::string, std::string> answers{
      {"mpirun (Open MPI) 4.1.4\\n\\nReport bugs to http://www.open-mpi.org/\\n", "Open MPI 4.1.4"},
      {"HYDRA build details:\\n    Version:                                 4.0.2\\n",
       "MPICH 4.0.2"},
      {"Intel(R) MPI Library for Linux* OS, Version 2021.8 Build 20221129\\n", "Intel MPI 2021.8"},
      {"\\n  some other launcher 1.0 \\n", "some other launcher 1.0"}};
  for (const auto& [answer, version] : answers) {
    const std::string path = add("mpirun", "#!/bin/sh\nprintf '" + answer + "'\n");
    const Launcher launcher = find("mpirun");
    EXPECT_EQ(launcher.path, path);
    EXPECT_EQ(launcher.version, version);
    EXPECT_EQ(launcher.problem, "");
  }
}

TEST_F(FindLauncher, AsksThePythonOfTorchrun) {
  const std::string python =
      add("python3", "#!/bin/sh\n[ \"$1\" = -I ] && [ \"$2\" = -c ] && echo torch 2.11.0\n");
  add("torchrun", "#!" + python + "\nimport torch\n");
  EXPECT_EQ(find("torchrun").version, "torch 2.11.0");
  add("torchrun", "#!/bin/sh\n'''exec' \"" + python + "\" \"$0\" \"$@\"\n' '''\nimport torch\n");
  EXPECT_EQ(find("torchrun").version, "torch 2.11.0");
}

TEST_F(FindLauncher, SaysThatThePythonOfTorchrunIsGone) {
  add("torchrun", "#!/nowhere/python\n");
  EXPECT_EQ(find("torchrun").problem,
            "the query of its version exited with status 127: No such file or directory");
}

TEST_F(FindLauncher, SaysWhatAFailingLauncherSaidLast) {
  add("srun", "#!/bin/sh\necho Traceback\necho no module named torch >&2\nexit 1\n");
  EXPECT_EQ(find("srun").problem,
            "the query of its version exited with status 1: no module named torch");
}

TEST_F(FindLauncher, SaysThatALauncherSaidNothing) {
  add("srun", "#!/bin/sh\n");
  EXPECT_EQ(find("srun").problem, "it printed no version");
}

TEST_F(FindLauncher, EndsALauncherThatHangsWithWhatItStarted) {
  add("mpirun",
      "#!/bin/sh\n/bin/sleep 600 &\necho $! >" + (folder() / "pid").string() + "\nwait\n");
  EXPECT_EQ(find("mpirun", milliseconds(500)).problem,
            "the query of its version did not finish within its limit of 0.5 s");
  const std::string pid = text_if_there(folder() / "pid");
  EXPECT_TRUE(pid.empty() || is_gone(std::stoi(pid)));
}

TEST_F(FindLauncher, EndsALauncherThatPrintsWithoutEnd) {
  add("mpirun", "#!/bin/sh\nexec /usr/bin/yes mpirun\n");
  EXPECT_THAT(find("mpirun").problem, testing::StartsWith("the query of its version "));
}

using Variables = std::map<std::string, std::string>;

std::optional<ForeignPlacement> foreign_placement_in(const Variables& variables) {
  return foreign_placement([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

/// "launcher rank/world size, local rank/ranks of the machine", or empty.
std::string placement_in(const Variables& variables) {
  const auto placement = foreign_placement_in(variables);
  if (!placement) return "";
  return fmt::format("{} {}/{}, {}/{}", placement->variables->launcher, placement->rank,
                     placement->world_size, placement->local_rank, placement->local_world_size);
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node0"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "run"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kHydra{
    {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}};
const Variables kStep{{"SLURM_PROCID", "5"}, {"SLURM_STEP_ID", "0"},
                      {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};

Variables joined(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

TEST(ForeignPlacement, IsFoundByTheVariablesOfItsLauncher) {
  EXPECT_EQ(placement_in(kTorchrun), "torchrun 5/8, 1/4");
  EXPECT_EQ(placement_in(kOpenMpi), "Open MPI's mpirun 0/4, 0/2");
  EXPECT_EQ(placement_in(kHydra), "MPICH's mpirun 3/4, 3/4");
  EXPECT_EQ(placement_in(kStep), "srun 5/8, 1/2");
}

TEST(ForeignPlacement, KnowsWhereRanksMeetAndWhoServesThat) {
  const auto placement = foreign_placement_in(kTorchrun);
  EXPECT_EQ(placement->host, "node0");
  EXPECT_EQ(placement->port, 29500);
  EXPECT_EQ(placement->job, "run");
  EXPECT_TRUE(placement->is_served) << "by the agent: no rank may";
  EXPECT_FALSE(placement->is_one_machine());
  const auto by_hand =
      foreign_placement_in(joined(kHydra, {{"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(by_hand->port, 29500);
  EXPECT_FALSE(by_hand->is_served);
  EXPECT_TRUE(by_hand->is_one_machine());
  EXPECT_EQ(foreign_placement_in(kHydra)->port, 0);
}

TEST(ForeignPlacement, IsOnOneMachineWhereNothingSaysOtherwise) {
  EXPECT_EQ(placement_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "torchrun 1/2, 1/2");
  EXPECT_EQ(placement_in({{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "3"}, {"SLURM_NTASKS", "2"}}),
            "srun 1/2, 1/2");
}

TEST(ForeignPlacement, CountsTheTasksOfItsNode) {
  Variables last = kStep;
  last["SLURM_NODEID"] = "3";
  last["SLURM_PROCID"] = "6";
  last["SLURM_LOCALID"] = "0";
  EXPECT_EQ(placement_in(last), "srun 6/8, 0/1");
}

TEST(ForeignPlacement, IsNoneWithoutALauncher) {
  EXPECT_EQ(placement_in({}), "");
  EXPECT_EQ(placement_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), "")
      << "a batch script has them too";
}

TEST(ForeignPlacement, IsThatOfTheInnermostLauncher) {
  EXPECT_EQ(placement_in(joined(kHydra, kStep)), "MPICH's mpirun 3/4, 3/4");
  EXPECT_EQ(placement_in(joined(kOpenMpi, kStep)), "Open MPI's mpirun 0/4, 0/2");
  EXPECT_EQ(placement_in(joined(kTorchrun, joined(kOpenMpi, kStep))), "torchrun 5/8, 1/4");
  EXPECT_EQ(placement_in(joined(kStep, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}})), "srun 5/8, 1/2")
      << "a step of Slurm may speak PMI";
}

TEST(ForeignPlacement, OfACompleteLauncherCountsWhateverElseIsSet) {
  EXPECT_EQ(placement_in(joined(kOpenMpi, {{"RANK", "0"}})), "Open MPI's mpirun 0/4, 0/2");
}

/// A rank of Slurm's first node.
Variables in_step_of(const std::string& tasks) {
  Variables step = kStep;
  step["SLURM_NODEID"] = step["SLURM_LOCALID"] = "0";
  step["SLURM_STEP_TASKS_PER_NODE"] = tasks;
  return step;
}

TEST(ForeignPlacement, OfNonsenseIsRefusedByTheNameOfTheVariable) {
  const std::map<std::string, Variables> nonsense{
      {"RANK cannot be '2': give a whole number from 0 to 1", {{"RANK", "2"}, {"WORLD_SIZE", "2"}}},
      {"RANK cannot be 'x'", {{"RANK", "x"}, {"WORLD_SIZE", "2"}}},
      {"WORLD_SIZE cannot be '0'", {{"RANK", "0"}, {"WORLD_SIZE", "0"}}},
      {"LOCAL_RANK cannot be '2'", {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}},
      {"MASTER_PORT cannot be '0'",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}}},
      {"MASTER_ADDR is set but LOCAL_WORLD_SIZE is not",
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}}},
      {"RANK is set but WORLD_SIZE is not", {{"RANK", "0"}}},
      {"PMI_RANK is set but PMI_SIZE is not", {{"PMI_RANK", "0"}}},
      {"SLURM_STEP_TASKS_PER_NODE cannot be '0': give a whole number, at least 1", in_step_of("0")},
      {"SLURM_STEP_TASKS_PER_NODE cannot be '4294967298'", in_step_of("4294967298")},
      {"SLURM_STEP_TASKS_PER_NODE cannot be '99999999999'", in_step_of("2(x99999999999)")}};
  for (const auto& [sentence, variables] : nonsense) {
    try {
      foreign_placement_in(variables);
      ADD_FAILURE() << sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      EXPECT_THAT(error.what(), testing::StartsWith(sentence));
    }
  }
}

TEST(ForeignPlacement, IsForgottenButForWhatAStepNeeds) {
  ::setenv("RANK", "0", 1);
  ::setenv("PMI_RANK", "0", 1);
  ::setenv("SLURM_JOB_ID", "7", 1);
  forget_foreign_placement();
  EXPECT_EQ(std::getenv("RANK"), nullptr);
  EXPECT_EQ(std::getenv("PMI_RANK"), nullptr);
  EXPECT_STREQ(std::getenv("SLURM_JOB_ID"), "7");
  ::unsetenv("SLURM_JOB_ID");
}

}  // namespace
}  // namespace lockstep
