// Messages of `lockstep doctor` and `lockstep run --require` on machines that lack something.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "tests/command.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kFakeCuda = "LD_LIBRARY_PATH=" LOCKSTEP_FAKE_CUDA " FAKE_CUDA=";
const std::string kWorks = "'lockstep run' can work here:";
const std::string kWorksNot = "'lockstep run' cannot work here:";

/// A machine with a few fake programs and none of the tests' own environment.
class Machine : public testing::Test {
 protected:
  Machine() { fs::create_directory(bin()); }

  fs::path bin() const { return folder_.path() / "bin"; }
  std::string add_program(const std::string& name, const std::string& script) const {
    const fs::path program = bin() / name;
    write_text(program, "#!/bin/sh\n" + script + "\n");
    fs::permissions(program, fs::perms::owner_all);
    return program;
  }

  /// `before`: shell commands that run first, including assignments.
  Outcome lockstep(const std::string& before, const std::string& arguments) const {
    const std::string outside =
        "unset RANK WORLD_SIZE OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID SLURM_STEP_ID "
        "CUDA_VISIBLE_DEVICES; cd " +
        folder_.path().string() + "; ";
    return run_shell(outside + before + " PATH=" + bin().string() + " " + kLockstep + " " +
                     arguments);
  }
  Outcome doctor(const std::string& before, const std::string& options = "") const {
    const Outcome outcome = lockstep(before, "doctor " + options);
    for (const std::string& line : lines_of(outcome.out)) {
      const bool is_command = line.find(" export PATH=") != std::string::npos;
      if (!is_command) {
        EXPECT_LE(line.size(), 80U) << line;
      }
    }
    EXPECT_EQ(outcome.err, "");
    return {outcome.status, unwrapped(outcome.out), outcome.err};
  }
  Outcome run(const std::string& before, const std::string& options) const {
    return lockstep(before,
                    "run loss-on-unwrapped-module/reference --steps 1 --out run " + options);
  }
  bool has_run() const { return fs::exists(folder_.path() / "run"); }

  /// Number of entries in doctor's working folder.
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(folder_.path()), {});
  }

 private:
  TemporaryFolder folder_;
};

using Doctor = Machine;
using Require = Machine;
using RunHere = Machine;

TEST_F(Doctor, SaysWhatThisMachineHas) {
  const Outcome said = doctor("");
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_THAT(said.out, AllOf(HasSubstr("torch built against 2."), HasSubstr("the same release"),
                              HasSubstr("gloo: two ranks reduced a tensor"), HasSubstr("nccl: "),
                              HasSubstr("torchrun: not on PATH"), HasSubstr("apt install openmpi"),
                              HasSubstr("started by no launcher"), HasSubstr("for 64 ranks")));
  EXPECT_THAT(said.out, HasSubstr("cores: "));
  EXPECT_THAT(said.out, HasSubstr(kWorks));
}

TEST_F(Doctor, BeginsWithItsConclusion) {
  EXPECT_THAT(doctor("").out, testing::StartsWith(kWorks));
  EXPECT_THAT(doctor("ulimit -n 12;").out, testing::StartsWith(kWorksNot));
}

TEST_F(Doctor, SaysWhichTorchIsLoaded) {
  const Outcome outcome = lockstep("", "doctor");
  std::string joined = outcome.out;
  joined.erase(std::remove_if(joined.begin(), joined.end(), ::isspace), joined.end());
  EXPECT_THAT(joined, HasSubstr("/lib/libtorch_cpu.so"));
}

TEST_F(Doctor, SaysThatAnotherTorchIsLoaded) {
  const Outcome said = doctor("LD_PRELOAD=" LOCKSTEP_OTHER_TORCH);
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, HasSubstr("loaded 99.1.0, another release"));
  EXPECT_THAT(said.out, HasSubstr(kWorksNot + " it was built against torch 2."));
}

TEST_F(Doctor, LeavesNothingBehind) {
  const auto before = entries();
  EXPECT_EQ(doctor("").status, 0);
  EXPECT_EQ(entries(), before);
}

TEST_F(Doctor, SaysTheSameInAPipe) {
  const Outcome piped = run_shell(kLockstep + " doctor | /bin/cat");
  EXPECT_THAT(unwrapped(piped.out), HasSubstr(kWorks));
}

TEST_F(Doctor, WhoseOutputCannotBeWrittenSaysSo) {
  const Outcome outcome = run_shell(kLockstep + " doctor >/dev/full");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

TEST_F(Doctor, TellsLaunchersApart) {
  const std::string torchrun = add_program("torchrun", "echo torch 2.11.0+cu130");
  const std::string mpirun = add_program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'");
  const std::string srun = add_program("srun", "echo slurm-wlm 22.05.8");
  const Outcome said = doctor("");
  EXPECT_THAT(said.out, HasSubstr("torchrun: torch 2.11.0+cu130, "));
  EXPECT_THAT(said.out, HasSubstr("mpirun: Open MPI 4.1.4, "));
  EXPECT_THAT(said.out, HasSubstr("srun: Slurm 22.05.8, "));
  EXPECT_THAT(said.out, AllOf(HasSubstr(torchrun), HasSubstr(mpirun), HasSubstr(srun)));
}

TEST_F(Doctor, OutlivesLaunchersThatDoNotWork) {
  add_program("torchrun", "exec /bin/sleep 600");
  add_program("mpirun", "");
  add_program("srun", "echo plugin missing >&2; exit 3");
  const Outcome said = doctor("", "--timeout 0.5");
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_THAT(said.out,
              HasSubstr("torchrun: the query of its version did not finish within its limit of "
                        "0.5 s"));
  EXPECT_THAT(said.out, HasSubstr("mpirun: it printed no version"));
  EXPECT_THAT(said.out, HasSubstr("exited with status 3: plugin missing"));
}

TEST_F(Doctor, SaysWhoseRankItIs) {
  EXPECT_THAT(doctor("RANK=1 WORLD_SIZE=2").out, HasSubstr("started by torchrun, as rank 1 of 2"));
  EXPECT_THAT(doctor("SLURM_PROCID=0 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4").out,
              HasSubstr("started by Open MPI's mpirun, as rank 3 of 4"));
  EXPECT_THAT(doctor("RANK=2 WORLD_SIZE=2").out, HasSubstr("started by RANK cannot be '2'"));
}

TEST_F(Doctor, InAFolderThatWasRemovedSaysThatRunCannotWork) {
  const Outcome said = doctor("/bin/mkdir gone; cd gone; /bin/rmdir ../gone;");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, HasSubstr(kWorksNot + " Cannot read the current folder"));
}

TEST_F(Doctor, IsNotTheOnlyCommandThatSaysThatTheFolderIsGone) {
  const std::string gone = "/bin/mkdir gone; cd gone; /bin/rmdir ../gone;";
  for (const char* arguments : {"list", "run --out /nowhere"}) {
    const Outcome outcome = lockstep(gone, arguments);
    EXPECT_EQ(outcome.status, 64) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("Cannot read the current folder"));
  }
  EXPECT_EQ(lockstep(gone, "--help").status, 0);
}

TEST_F(Doctor, InAFolderThatCannotBeWrittenSaysThatRunCannotWork) {
  const Outcome said = doctor("cd /proc;");
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, HasSubstr(kWorksNot + " Cannot write the current folder"));
}

TEST_F(Doctor, WithFewOpenFilesSaysHowManyRanksTheyAreFor) {
  const Outcome said = doctor("ulimit -n 40;");
  EXPECT_EQ(said.status, 0) << said.out;
  EXPECT_THAT(said.out, HasSubstr("open files: 40, enough for 10 ranks"));
  EXPECT_THAT(said.out, HasSubstr("ulimit -n "));
}

TEST_F(Doctor, WithTooFewOpenFilesSaysThatRunCannotWork) {
  for (const int files : {12, 16, 23}) {
    const Outcome said = doctor(fmt::format("ulimit -n {};", files));
    EXPECT_EQ(said.status, 1) << said.out;
    EXPECT_THAT(said.out, HasSubstr(fmt::format("{} {} open files are too few", kWorksNot, files)));
  }
}

/// Empty if this process may create a network without a loopback interface.
std::string why_no_network_of_its_own() {
  const Outcome outcome = run_shell("/usr/bin/unshare -n true");
  return outcome.status == 0 ? "" : "unshare -n: " + outcome.err;
}

TEST_F(Doctor, WithoutALoopbackInterfaceNamesIt) {
  const std::string why_not = why_no_network_of_its_own();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const Outcome said = doctor("/usr/bin/unshare -n /usr/bin/env");
  EXPECT_EQ(said.status, 1) << said.out;
  EXPECT_THAT(said.out, HasSubstr(kWorksNot + " ranks meet on 127.0.0.1"));
  EXPECT_THAT(said.out, HasSubstr("ip link set lo up"));
}

TEST_F(RunHere, WithoutALoopbackInterfaceIsRefused) {
  const std::string why_not = why_no_network_of_its_own();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
  const Outcome outcome = run("/usr/bin/unshare -n /usr/bin/env", "");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("No rank was started: ranks meet on 127.0.0.1"));
  EXPECT_FALSE(has_run());
}

TEST_F(RunHere, WithTooFewOpenFilesIsRefused) {
  const Outcome outcome = run("ulimit -n 16;", "");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("No rank was started: 16 open files are too few for 2 ranks; "
                        "they need 24. Remedy: ulimit -n 24."));
  EXPECT_FALSE(has_run());
}

TEST_F(RunHere, WithoutThreadsIsRefused) {
  const Outcome outcome = run("LD_PRELOAD=" LOCKSTEP_NO_THREADS, "");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  EXPECT_THAT(unwrapped(outcome.err),
              HasSubstr("processes and threads for 2 ranks cannot be created (Resource temporarily "
                        "unavailable)"));
  EXPECT_FALSE(has_run());
}

TEST_F(Doctor, CountsTheGpusOfTheDriver) {
  EXPECT_THAT(doctor(kFakeCuda + "3").out, HasSubstr("GPUs 2 x Fake A, 1 x Fake B launchers"));
  EXPECT_THAT(doctor(kFakeCuda + "noise1").out, HasSubstr("GPUs 1 x Fake A launchers"));
}

TEST_F(Doctor, SaysWhyThereIsNoGpu) {
  EXPECT_THAT(doctor(kFakeCuda + "0").out, HasSubstr("none: the driver knows no device"));
  EXPECT_THAT(doctor(kFakeCuda + "'error 999'").out,
              HasSubstr("none: the driver says error 999 (CUDA_ERROR_UNKNOWN)"));
  EXPECT_THAT(doctor(kFakeCuda + "'error 35'").out, HasSubstr("none: the driver says error 35 "));
  EXPECT_THAT(doctor("CUDA_VISIBLE_DEVICES= " + kFakeCuda + "2").out,
              HasSubstr("no device with CUDA_VISIBLE_DEVICES=''"));
}

TEST_F(Doctor, OutlivesADriverThatDoesNotWork) {
  for (const auto& [behaviour, told] :
       {std::pair("abort", "was killed by signal 6 (SIGABRT)"),
        std::pair("hang", "did not finish within its limit of 0.5 s"),
        std::pair("exit", "the driver ended the process")}) {
    const Outcome said = doctor(kFakeCuda + behaviour, "--timeout 0.5");
    EXPECT_THAT(said.out, HasSubstr(told));
    EXPECT_THAT(said.out, HasSubstr("nvidia-smi"));
    EXPECT_THAT(said.out, HasSubstr("cores: ")) << "the rest is told all the same";
  }
}

TEST_F(Doctor, SaysThatThereIsNoDriverLibrary) {
  const Outcome here = doctor("");
  if (here.out.find("GPUs none: there is no driver library") == here.out.npos) {
    GTEST_SKIP() << "there is one on this machine";
  }
  EXPECT_THAT(here.out, HasSubstr("install the NVIDIA driver"));
}

TEST_F(Require, WhatIsThereChangesNothing) {
  const Outcome outcome = run("", "--require gloo");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(has_run());
}

TEST_F(Require, GpusAndLaunchersThatAreThereAreMet) {
  add_program("mpirun", "echo 'mpirun (Open MPI) 4.1.4'");
  EXPECT_EQ(run(kFakeCuda + "2", "--require gpus=2,mpirun,gpus=1").status, 0);
}

TEST_F(Require, WhatIsMissingRunsNothing) {
  const Outcome outcome = run(kFakeCuda + "1", "--require gloo,torchrun,srun,gpus=2,torchrun");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_FALSE(has_run());
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 3U) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("--require torchrun is not met: not on PATH. Remedy: "),
                    HasSubstr("--require srun is not met: not on PATH. Remedy: "),
                    HasSubstr("--require gpus=2 is not met: there is 1 (1 x Fake A). Remedy: "),
                    Not(HasSubstr("gloo is not"))));
}

TEST_F(Require, ALauncherThatDoesNotWorkIsNotMet) {
  add_program("srun", "exit 1");
  const Outcome outcome = run("", "--require srun");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("exited with status 1"));
}

TEST_F(Require, TurnsARunOfNothingIntoAFailure) {
  const std::string none = "run loss-on-unwrapped-module --ranks 1 --out run";
  EXPECT_EQ(lockstep("", none + "1").status, 3);
  const Outcome outcome = lockstep("", none + "2 --require gloo");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a failure with --require"));
  EXPECT_THAT(outcome.out, HasSubstr("supports world sizes 2 to 16, not 1"));
}

TEST_F(Require, RefusesWhatMeansNothing) {
  for (const auto& [list, told] :
       {std::pair("ncl", "Did you mean 'nccl'?"), std::pair("gpu=2", "Did you mean 'gpus=N'?"),
        std::pair("cuda", "gloo, mpi, nccl, torchrun, mpirun, srun, gpus=N"),
        std::pair("gpus=x", "gpus=N, N from 1 to 1024"), std::pair("gpus", "gpus=N"),
        std::pair("gpus=0", "gpus=N"), std::pair("gpus=", "gpus=N"), std::pair("gpus=-1", "gpus=N"),
        std::pair("gpus=99999999999999999999", "gpus=N"), std::pair("gloo,,", "one comma"),
        std::pair(",", "one comma"), std::pair("''", "must not be empty")}) {
    const Outcome outcome = run("", std::string("--require ") + list);
    EXPECT_EQ(outcome.status, 64) << list;
    EXPECT_THAT(outcome.err, HasSubstr(told));
    EXPECT_FALSE(has_run());
  }
}

}  // namespace
}  // namespace lockstep
