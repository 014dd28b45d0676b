// `run --backend` on builds with and without backend modules, and the messages about them.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/command.h"
#include "tests/foreign_launchers.h"
#include "tests/programs.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const fs::path kModules = LOCKSTEP_MODULES;

bool is_built(const std::string& module) { return fs::exists(kModules / (module + ".so")); }

/// A machine whose driver behaves as FAKE_CUDA says, without a launcher.
class BackendOfAProgram : public testing::Test {
 protected:
  Outcome call(const std::string& program, const std::string& arguments,
               const std::string& fake_cuda = "0") const {
    Outcome outcome = run_shell(fmt::format(
        "unset CUDA_VISIBLE_DEVICES OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK PMI_FD LOCKSTEP_MPI "
        "LOCKSTEP_SHARE_GPU; cd {}; LD_LIBRARY_PATH={} FAKE_CUDA={} {} {}",
        folder_.path().string(), LOCKSTEP_FAKE_CUDA, fake_cuda, program, arguments));
    outcome.out = unwrapped(outcome.out);
    return outcome;
  }
  bool has_run() const { return fs::exists(folder_.path() / "runs"); }
  const fs::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

TEST_F(BackendOfAProgram, MpiIsRefusedWithoutALauncher) {
  if (!is_built("lockstep_mpi_openmpi") && !is_built("lockstep_mpi_mpich")) GTEST_SKIP();
  const Outcome outcome =
      call(kLockstep, "run loss-on-unwrapped-module/bypass --backend mpi --launcher none");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("ranks that MPI's own launcher started"), HasSubstr("mpirun")));
  EXPECT_FALSE(has_run());
}

TEST_F(BackendOfAProgram, ThatIsNotInABuildIsRefusedWithWhatHelps) {
  if (is_built("lockstep_mpi_openmpi") || is_built("lockstep_mpi_mpich")) {
    GTEST_SKIP() << "this build has the module";
  }
  const Outcome outcome = call(kLockstep, "run loss-on-unwrapped-module/bypass --backend mpi");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("mpi is not in this build"), HasSubstr("libmpich-dev")));
}

TEST_F(BackendOfAProgram, NcclDoesNotApplyToScenariosThatDoNotTrainOnGpus) {
  if (!is_built("lockstep_nccl")) GTEST_SKIP() << "this torch has no CUDA";
  const Outcome outcome = call(kTestbed, "run planted-bit/clean --backend nccl");
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("2 ranks over nccl on cuda"), HasSubstr("runs on cpu, not on cuda")));
}

TEST_F(BackendOfAProgram, NcclDoesNotApplyWhereGpusAreMissing) {
  if (!is_built("lockstep_nccl")) GTEST_SKIP() << "this torch has no CUDA";
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl").out,
              HasSubstr("there is no GPU"));
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl", "1").out,
              HasSubstr("nccl needs a GPU for each of 2 ranks, but there is 1"));
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl --device sim").out,
              HasSubstr("nccl connects GPUs, but this cell trains on sim"));
}

TEST_F(BackendOfAProgram, ThatIsRequiredHasToBeThere) {
  const Outcome nccl = call(kLockstep, "run loss-on-unwrapped-module/bypass --require nccl");
  EXPECT_EQ(nccl.status, 1);
  EXPECT_THAT(nccl.err, AllOf(HasSubstr("--require nccl is not met"),
                              HasSubstr(is_built("lockstep_nccl") ? "no GPU" : "not in this")));
  const bool has_mpi = is_built("lockstep_mpi_openmpi") || is_built("lockstep_mpi_mpich");
  const Outcome mpi =
      call(kLockstep, "run loss-on-unwrapped-module/reference --steps 1 --require mpi");
  EXPECT_EQ(mpi.status, has_mpi ? 0 : 1) << mpi.err;
}

struct Mpi {
  const char* name;
  const char* module;
  const char* launcher;
};
const std::vector<Mpi> kMpis{{"Open MPI", "lockstep_mpi_openmpi", "/usr/bin/mpirun.openmpi"},
                             {"MPICH", "lockstep_mpi_mpich", "/usr/bin/mpirun.mpich"}};

TEST_F(BackendOfAProgram, IsTriedByDoctor) {
  allow_foreign_launchers();
  const std::string told = call(kLockstep, "doctor").out;
  EXPECT_THAT(told, HasSubstr("gloo: two ranks reduced a tensor"));
  for (const Mpi& mpi : kMpis) {
    const std::string name = fmt::format("mpi, {}: ", mpi.name);
    const bool is_told = told.find(name) != std::string::npos;
    EXPECT_EQ(is_told, is_built(mpi.module)) << told;
    if (!is_told || !fs::exists(mpi.launcher)) continue;
    EXPECT_THAT(told, HasSubstr(name + "two ranks reduced a tensor, started by "));
  }
  EXPECT_THAT(told,
              HasSubstr(is_built("lockstep_nccl") ? "nccl: built in, not tried: there is no GPU"
                                                  : "nccl: not in this build"));
}

TEST_F(BackendOfAProgram, WithoutWhatStartsItsRanksIsNotTried) {
  const std::string without_path = "PATH=" + folder().string() + " " + kLockstep;
  const std::string told = call(without_path, "doctor", "1").out;
  for (const Mpi& mpi : kMpis) {
    if (!is_built(mpi.module)) continue;
    EXPECT_THAT(told, HasSubstr(fmt::format(
                          "mpi, {0}: built in, not tried: no mpirun of {0} is on PATH", mpi.name)));
  }
  if (!is_built("lockstep_nccl")) GTEST_SKIP() << "this torch has no CUDA";
  EXPECT_THAT(told,
              HasSubstr("nccl: built in, not tried: two ranks need two GPUs, and there is one"));
}

TEST_F(BackendOfAProgram, WhoseLauncherFailsOrHangsIsToldWithItsWords) {
  if (!is_built("lockstep_mpi_openmpi")) GTEST_SKIP() << "there is no Open MPI";
  const fs::path mpirun = folder() / "mpirun";
  const std::string version =
      "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'mpirun (Open MPI) 4.1.4'; exit; }\n";
  for (const auto& [ends, told] :
       {std::pair("echo -----; echo; echo 'There are not enough slots'; exit 3",
                  "could not reduce a tensor: {} exited with status 3: There are not enough slots"),
        std::pair("exec /bin/sleep 600",
                  "could not reduce a tensor: {} did not finish within its limit of 5 s")}) {
    write_text(mpirun, version + ends + "\n");
    fs::permissions(mpirun, fs::perms::owner_all);
    const Outcome outcome =
        call("PATH=" + folder().string() + " " + kLockstep, "doctor --timeout 5");
    EXPECT_THAT(outcome.out, HasSubstr(fmt::format(fmt::runtime(told), mpirun.string())));
    EXPECT_EQ(outcome.status, 0) << "gloo works all the same";
  }
}

/// With all libraries that they need, even on a machine without a GPU or an mpirun.
TEST_F(BackendOfAProgram, ModulesThatAreBuiltCanBeLoaded) {
  for (const char* module : {"lockstep_mpi_openmpi", "lockstep_mpi_mpich", "lockstep_nccl"}) {
    if (!is_built(module)) continue;
    const std::string file = kModules / (std::string(module) + ".so");
    void* const loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(loaded, nullptr) << ::dlerror();
    EXPECT_NE(::dlsym(loaded, "lockstep_backend_factory"), nullptr) << module;
  }
}

/// A process that did not ask for MPI or CUDA loads nothing of them.
TEST_F(BackendOfAProgram, GlooAloneIsLinked) {
  const Outcome outcome = call("ldd", LOCKSTEP_CATALOGUE);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("libtorch_cpu"), Not(HasSubstr("libmpi")),
                                 Not(HasSubstr("libmpich")), Not(HasSubstr("libtorch_cuda"))));
}

}  // namespace
}  // namespace lockstep
