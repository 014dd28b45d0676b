// Outputs of modules and the gradients at them: `watch --modules` and modules_training.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/command.h"
#include "tests/watch/torchrun.h"
#include "tests/watch/watch_command.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The training prints a line per row that is not what it has to be.
TEST(ModulesInCode, HaveTheirRowsAndChangeNothing) {
  const TemporaryFolder folder;
  const Outcome outcome = run_shell(fmt::format(
      "env PYTHONPATH={}/share/lockstep/python OMP_NUM_THREADS=1 {} -W ignore "
      "{}/tests/watch/modules_training.py {}",
      LOCKSTEP_BUILD, python_of_trainings(), LOCKSTEP_SOURCE_DIR, folder.path().string()));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, Not(HasSubstr("lockstep: "))) << outcome.err;
}

TEST(ModulesUnderWatch, AreObservedOnRequestAlone) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& options) {
    const Outcome outcome = run_shell(fmt::format("cd {} && OMP_NUM_THREADS=1 {} watch {} -- {}",
                                                  folder.path().string(), LOCKSTEP_PROGRAM, options,
                                                  two_ranks("one_training")));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return unwrapped(outcome.err);
  };
  EXPECT_THAT(said("--out with --modules"),
              HasSubstr("outputs of modules were observed, 4 of them, and the gradients at 4: "));
  EXPECT_THAT(said("--out without"), Not(HasSubstr("outputs of modules")));
  // Names of modules are selected as those of parameters.
  EXPECT_THAT(said("--out others --modules --tensors weight"),
              Not(HasSubstr("outputs of modules")));
}

TEST_F(WatchCommand, LeavesOutOutputsThatACollectiveHasYetToFill) {
  const Outcome outcome = watch("--modules", two_ranks("row_parallel_training"));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("parameters compared on 2 of 2 ranks, 4 steps"));
  EXPECT_THAT(unwrapped(outcome.err), HasSubstr("outputs of modules were observed"));
}

}  // namespace
}  // namespace lockstep
