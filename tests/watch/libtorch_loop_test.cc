// The example of a training loop in C++, run and judged as its reader would.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/command.h"

namespace lockstep {
namespace {

class LibtorchLoop : public testing::Test {
 protected:
  Outcome trained(const std::string& option) const {
    return run_shell(fmt::format(
        "export OMP_NUM_THREADS=1 WORLD_SIZE=2; RANK=1 {0} {1} {2} {3} & RANK=0 {0} {1} {2} {3}; "
        "status=$?; wait $! && exit $status",
        LOCKSTEP_LIBTORCH_LOOP, run().string(), (folder_.path() / "store").string(), option));
  }
  Outcome reported() const {
    return run_shell(fmt::format("{} report {}", LOCKSTEP_PROGRAM, run().string()));
  }
  std::filesystem::path run() const { return folder_.path() / "run"; }

 private:
  TemporaryFolder folder_;
};

TEST_F(LibtorchLoop, IsInLockstep) {
  const Outcome training = trained("");
  EXPECT_EQ(training.status, 0) << training.err;
  const Outcome report = reported();
  EXPECT_EQ(report.status, 0) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              testing::HasSubstr("libtorch_loop, 2 ranks: in lockstep: 4 of 4 parameters compared "
                                 "on 2 of 2 ranks, 5 steps, 1 to 5"));
  const Outcome again = trained("");
  EXPECT_NE(again.status, 0);
  EXPECT_THAT(again.err, testing::HasSubstr("it holds an earlier job"));
}

TEST_F(LibtorchLoop, DiffersIfItsGradientsAreNotReduced) {
  const Outcome training = trained("--forget-reduction");
  EXPECT_EQ(training.status, 0) << training.err;
  const Outcome report = reported();
  EXPECT_EQ(report.status, 1) << report.out;
  EXPECT_THAT(unwrapped(report.out),
              testing::HasSubstr("FAILED: ranks differ from step 1 on: 0.weight"));
  EXPECT_THAT(unwrapped(report.out),
              testing::HasSubstr("gradients do not agree across ranks: first in step 1, 0.weight"));
}

}  // namespace
}  // namespace lockstep
