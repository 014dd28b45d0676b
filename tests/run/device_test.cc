// `run --device` on machines with and without GPUs, simulated by a fake driver library.

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

/// A run on a machine whose driver behaves as FAKE_CUDA says.
class DeviceOption : public testing::Test {
 protected:
  Outcome run(const std::string& fake_cuda, const std::string& program,
              const std::string& arguments) const {
    Outcome outcome = run_shell(fmt::format(
        "unset CUDA_VISIBLE_DEVICES; LD_LIBRARY_PATH={} FAKE_CUDA={} {} run {} --out {}",
        LOCKSTEP_FAKE_CUDA, fake_cuda, program, arguments, path().string()));
    outcome.out = unwrapped(outcome.out);
    return outcome;
  }
  fs::path path() const { return folder_.path() / "run"; }

 private:
  TemporaryFolder folder_;
};

TEST_F(DeviceOption, CudaIsSkippedWithTheReasonWhereThereIsNoGpu) {
  const Outcome outcome = run("0", kTestbed, "trains-on-devices --device cuda");
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Nothing ran: 3 cells, 3 NOT RUN."),
                                 HasSubstr("trains-on-devices, 2 ranks on cuda"),
                                 HasSubstr("there is no GPU: the driver knows no device. Remedy: "
                                           "see that nvidia-smi works")));
}

TEST_F(DeviceOption, CudaThatIsSkippedIsAFailureWhereSomethingIsRequired) {
  const Outcome outcome = run("0", kTestbed, "trains-on-devices --device cuda --require gloo");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a failure with --require"));
}

TEST_F(DeviceOption, CudaNeedsAsManyGpusAsTheCellSays) {
  const Outcome outcome = run("2", kTestbed, "trains-on-devices/clean --ranks 3 --device cuda");
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("needs 3 GPUs, but there are 2"));
}

TEST_F(DeviceOption, HasAsManyRanksAsGpusIfAsked) {
  const Outcome outcome = run("2", kTestbed, "planted-bit/clean --ranks gpus,3");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("planted-bit, 2 ranks"), HasSubstr("planted-bit, 3 ranks")));
  const Outcome without = run("0", kTestbed, "planted-bit/clean --ranks gpus");
  EXPECT_EQ(without.status, 64);
  EXPECT_THAT(without.err, HasSubstr("--ranks gpus: there is no GPU: the driver knows no device"));
}

TEST_F(DeviceOption, AsksNoDriverForAScenarioWithoutGpus) {
  const Outcome outcome = run("hang", kTestbed, "planted-bit --device cuda");
  EXPECT_EQ(outcome.status, 3) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("runs on cpu, not on cuda"), Not(HasSubstr("there is no GPU"))));
}

TEST_F(DeviceOption, TrainsOnVirtualDevicesInFoldersOfTheirOwn) {
  const Outcome outcome = run("hang", kTestbed, "trains-on-devices/clean --device sim");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("trains-on-devices, 2 ranks on sim"));
  EXPECT_TRUE(fs::exists(path() / "trains-on-devices/clean/w2-device=sim/devices-0.bin"));
  EXPECT_THAT(text_of(path() / "record.json"),
              HasSubstr("run trains-on-devices/clean --ranks 2 --device sim\""));
}

TEST_F(DeviceOption, ThatIsNotGivenMeansTheStandardDevice) {
  const Outcome outcome = run("hang", kTestbed, "trains-on-devices/clean");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("trains-on-devices, 2 ranks "));
  EXPECT_TRUE(fs::exists(path() / "trains-on-devices/clean/w2"));
}

TEST(Catalogue, TellsDevicesWhereTheyAreNotJustTheCpu) {
  EXPECT_THAT(run_shell(kTestbed + " show trains-on-devices").out,
              HasSubstr("Devices:      cpu, sim, cuda (default: cpu)\n"));
  EXPECT_THAT(run_shell(kTestbed + " list trains-on-devices").out,
              HasSubstr("  2,3    cpu,sim,cuda  "));
  EXPECT_THAT(run_shell(kTestbed + " show planted-bit").out, HasSubstr("Devices:      cpu\n"));
}

}  // namespace
}  // namespace lockstep
