// `run --backend` on builds with and without backend modules, and the messages about them.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/command.h"
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
class Backend : public testing::Test {
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

 private:
  TemporaryFolder folder_;
};

TEST_F(Backend, MpiIsRefusedWithoutALauncher) {
  if (!is_built("lockstep_mpi_openmpi") && !is_built("lockstep_mpi_mpich")) GTEST_SKIP();
  const Outcome outcome =
      call(kLockstep, "run loss-on-unwrapped-module/bypass --backend mpi --launcher none");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("ranks that MPI's own launcher started"), HasSubstr("mpirun")));
  EXPECT_FALSE(has_run());
}

TEST_F(Backend, ThatIsNotInABuildIsRefusedWithWhatHelps) {
  if (is_built("lockstep_mpi_openmpi") || is_built("lockstep_mpi_mpich")) {
    GTEST_SKIP() << "this build has the module";
  }
  const Outcome outcome = call(kLockstep, "run loss-on-unwrapped-module/bypass --backend mpi");
  EXPECT_EQ(outcome.status, 64);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("mpi is not in this build"), HasSubstr("libmpich-dev")));
}

TEST_F(Backend, NcclDoesNotApplyToScenariosThatDoNotTrainOnGpus) {
  if (!is_built("lockstep_nccl")) GTEST_SKIP() << "this torch has no CUDA";
  const Outcome outcome = call(kLockstep, "run loss-on-unwrapped-module/bypass --backend nccl");
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("2 ranks over nccl on cuda"), HasSubstr("runs on cpu, not on cuda")));
}

TEST_F(Backend, NcclDoesNotApplyWhereGpusAreMissing) {
  if (!is_built("lockstep_nccl")) GTEST_SKIP() << "this torch has no CUDA";
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl").out,
              HasSubstr("there is no GPU"));
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl", "1").out,
              HasSubstr("nccl needs a GPU for each of 2 ranks, but there is 1"));
  EXPECT_THAT(call(kTestbed, "run trains-on-devices/clean --backend nccl --device sim").out,
              HasSubstr("nccl connects GPUs, but this cell trains on sim"));
}

TEST_F(Backend, ThatIsRequiredHasToBeThere) {
  const Outcome nccl = call(kLockstep, "run loss-on-unwrapped-module/bypass --require nccl");
  EXPECT_EQ(nccl.status, 1);
  EXPECT_THAT(nccl.err, AllOf(HasSubstr("--require nccl is not met"),
                              HasSubstr(is_built("lockstep_nccl") ? "no GPU" : "not in this")));
  const bool has_mpi = is_built("lockstep_mpi_openmpi") || is_built("lockstep_mpi_mpich");
  const Outcome mpi =
      call(kLockstep, "run loss-on-unwrapped-module/reference --steps 1 --require mpi");
  EXPECT_EQ(mpi.status, has_mpi ? 0 : 1) << mpi.err;
}

TEST_F(Backend, IsTold) {
  const std::string told = call(kLockstep, "doctor").out;
  for (const auto& [module, name] :
       {std::pair("lockstep_mpi_openmpi", "Open MPI"), std::pair("lockstep_mpi_mpich", "MPICH")}) {
    const std::string words = told.substr(told.find("mpi: "), 60);
    EXPECT_EQ(words.find(name) != std::string::npos, is_built(module)) << words;
  }
  EXPECT_THAT(told, HasSubstr(is_built("lockstep_nccl") ? "nccl: built in, but there is no GPU"
                                                        : "nccl: not in this build"));
}

/// With all libraries that they need, even on a machine without a GPU or an mpirun.
TEST_F(Backend, ModulesThatAreBuiltCanBeLoaded) {
  for (const char* module : {"lockstep_mpi_openmpi", "lockstep_mpi_mpich", "lockstep_nccl"}) {
    if (!is_built(module)) continue;
    const std::string file = kModules / (std::string(module) + ".so");
    void* const loaded = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(loaded, nullptr) << ::dlerror();
    EXPECT_NE(::dlsym(loaded, "lockstep_backend_factory"), nullptr) << module;
  }
}

/// A process that did not ask for MPI or CUDA loads nothing of them.
TEST_F(Backend, GlooAloneIsLinked) {
  const Outcome outcome = call("ldd", LOCKSTEP_CATALOGUE);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("libtorch_cpu"), Not(HasSubstr("libmpi")),
                                 Not(HasSubstr("libmpich")), Not(HasSubstr("libtorch_cuda"))));
}

}  // namespace
}  // namespace lockstep
