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
  /// The command of two ranks. `folder`: as they name it.
  std::string ranks(const std::string& folder, const std::string& option = "") const {
    return fmt::format(
        "sh -c 'export OMP_NUM_THREADS=1 WORLD_SIZE=2; RANK=1 {0} \"{1}\" {2} {3} & "
        "RANK=0 {0} \"{1}\" {2} {3}; status=$?; wait $! && exit $status'",
        LOCKSTEP_LIBTORCH_LOOP, folder, (folder_.path() / "store").string(), option);
  }
  Outcome trained(const std::string& option) const {
    return run_shell(ranks(run().string(), option));
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
  EXPECT_THAT(
      unwrapped(report.out),
      testing::HasSubstr("FAILED: gradients were never synchronised (4 of 4, from step 1)"));
  EXPECT_THAT(unwrapped(report.out),
              testing::HasSubstr("gradients do not agree across ranks: first in step 1, 0.weight"));
}

TEST_F(LibtorchLoop, WritesIntoTheFolderOfItsWatch) {
  const Outcome outcome =
      run_shell(fmt::format("{} watch --out {} -- {}", LOCKSTEP_PROGRAM, run().string(),
                            ranks("unused", "--forget-reduction")));
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(
      unwrapped(outcome.err),
      testing::HasSubstr("FAILED: gradients were never synchronised (4 of 4, from step 1)"));
  EXPECT_FALSE(std::filesystem::exists("unused"));
}

/// Files have at most 20 KiB: the loop has no handler of SIGXFSZ, and is not ended by it.
TEST_F(LibtorchLoop, OutlivesALimitOfFileSizes) {
  const Outcome outcome =
      run_shell(fmt::format("{} watch --out {} -- sh -c 'ulimit -f 40; exec \"$@\"' sh {}",
                            LOCKSTEP_PROGRAM, run().string(), ranks("unused")));
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, testing::HasSubstr("lockstep: rank 0 is no longer observed: Cannot "));
  EXPECT_THAT(unwrapped(outcome.err), testing::HasSubstr("UNDECIDED: in lockstep for "));
}

TEST_F(LibtorchLoop, NeedsAFolder) {
  const Outcome outcome = run_shell(ranks(""));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, testing::HasSubstr("The watch needs a folder, because each rank would "
                                              "make one of its own: give all ranks the same"));
}

}  // namespace
}  // namespace lockstep
