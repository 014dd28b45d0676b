#include "harness/launch/launcher.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "tests/launch/launch_fixture.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// PATH holds one folder, with what a test puts into it.
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
  const std::string python = add("python3", "#!/bin/sh\n[ \"$1\" = -c ] && echo torch 2.11.0\n");
  add("torchrun", "#!" + python + "\nimport torch\n");
  EXPECT_EQ(find("torchrun").version, "torch 2.11.0");
  add("torchrun", "#!/bin/sh\n'''exec' \"" + python + "\" \"$0\" \"$@\"\n' '''\nimport torch\n");
  EXPECT_EQ(find("torchrun").version, "torch 2.11.0");
}

TEST_F(FindLauncher, SaysThatThePythonOfTorchrunIsGone) {
  add("torchrun", "#!/nowhere/python\n");
  EXPECT_EQ(find("torchrun").problem,
            "asked for its version it exited with status 127: No such file or directory");
}

TEST_F(FindLauncher, SaysWhatAFailingLauncherSaidLast) {
  add("srun", "#!/bin/sh\necho Traceback\necho no module named torch >&2\nexit 1\n");
  EXPECT_EQ(find("srun").problem,
            "asked for its version it exited with status 1: no module named torch");
}

TEST_F(FindLauncher, SaysThatALauncherSaidNothing) {
  add("srun", "#!/bin/sh\n");
  EXPECT_EQ(find("srun").problem, "asked for its version it said nothing");
}

TEST_F(FindLauncher, EndsALauncherThatHangsWithWhatItStarted) {
  add("mpirun",
      "#!/bin/sh\n/bin/sleep 600 &\necho $! >" + (folder() / "pid").string() + "\nwait\n");
  EXPECT_EQ(find("mpirun", milliseconds(500)).problem,
            "asked for its version it did not finish within its limit of 0.5 s");
  const std::string pid = text_of(folder() / "pid");
  EXPECT_TRUE(pid.empty() || is_gone(std::stoi(pid)));
}

TEST_F(FindLauncher, EndsALauncherThatPrintsWithoutEnd) {
  add("mpirun", "#!/bin/sh\nexec /usr/bin/yes mpirun\n");
  EXPECT_THAT(find("mpirun").problem, testing::StartsWith("asked for its version it "));
}

/// What `foreign_seat` makes of these variables: "launcher rank/world size", or nothing.
std::string seat_in(const std::map<std::string, std::string>& variables) {
  const auto seat = foreign_seat([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  return seat ? seat->launcher + " " + seat->rank + "/" + seat->world_size : "";
}

TEST(ForeignSeat, IsFoundByTheVariablesOfItsLauncher) {
  EXPECT_EQ(seat_in({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "torchrun 1/2");
  EXPECT_EQ(seat_in({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
            "Open MPI's mpirun 0/4");
  EXPECT_EQ(seat_in({{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}), "MPICH's mpirun 3/4");
  EXPECT_EQ(seat_in({{"SLURM_PROCID", "5"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "8"}}),
            "srun 5/8");
}

TEST(ForeignSeat, IsNoneWithoutALauncher) {
  EXPECT_EQ(seat_in({}), "");
  EXPECT_EQ(seat_in({{"RANK", "1"}}), "");
  EXPECT_EQ(seat_in({{"SLURM_PROCID", "0"}}), "") << "a batch script has it too";
}

TEST(ForeignSeat, IsThatOfTheInnermostLauncher) {
  std::map<std::string, std::string> variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}};
  variables["PMI_RANK"] = "1";
  EXPECT_EQ(seat_in(variables), "MPICH's mpirun 1/");
  variables["OMPI_COMM_WORLD_RANK"] = "2";
  EXPECT_EQ(seat_in(variables), "Open MPI's mpirun 2/");
  variables["RANK"] = "3";
  variables["WORLD_SIZE"] = "4";
  EXPECT_EQ(seat_in(variables), "torchrun 3/4");
}

}  // namespace
}  // namespace lockstep
