// `lockstep diff` of cells of the catalogue.

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
using testing::HasSubstr;

/// One run of loss-on-unwrapped-module, shared by the tests.
class DiffOfCells : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    const Outcome run = run_shell(
        fmt::format("{} run loss-on-unwrapped-module --out {}", kLockstep, run_folder().string()));
    ASSERT_EQ(run.status, 0) << run.out << run.err;
  }
  static void TearDownTestSuite() { delete folder_; }

  static fs::path run_folder() { return folder_->path() / "run"; }

  /// In the folder of the scenario.
  static Outcome diff(const std::string& arguments) {
    return run_shell(fmt::format("cd {} && {} diff {}",
                                 (run_folder() / "loss-on-unwrapped-module").string(), kLockstep,
                                 arguments));
  }

  static void expect(const std::string& arguments, int status, const std::string& said) {
    const Outcome outcome = diff(arguments);
    EXPECT_EQ(outcome.status, status) << arguments << outcome.out << outcome.err;
    EXPECT_THAT(unwrapped(outcome.out + outcome.err), HasSubstr(said)) << arguments;
  }

 private:
  static inline TemporaryFolder* folder_ = nullptr;
};

TEST_F(DiffOfCells, FindsWhatTheVariantsDo) {
  expect("reference/w2 through-wrapper/w2", 0, "equal, bit for bit, in 5 steps, 1 to 5");
  expect("reference/w2/ all-reduce-each/w2", 0,
         "samples: those of the scenario: both cells have the same reference");
  expect("reference/w2 sum-not-averaged/w2", 1,
         "all 2 gradients differ in step 1, first that of weight: B is A times 2: summed over 2");
  expect("reference/w2 divided-twice/w2", 1, "B is A times 1/2: averaged twice over 2 ranks");
  expect("reference/w2 bypass/w2", 1,
         "all 2 updates differ in step 1, first that of weight on rank");
  expect("through-wrapper/w2 only-matrices-reduced/w2", 1, "1 of 2 updates differ in step 1");
  expect("reference/w2 bypass-armed-every-kth-step/w2", 1, "differ in step 1");
}

TEST_F(DiffOfCells, TellsAFix) {
  expect("--expect fixed reference/w2 bypass/w2 all-reduce-each/w2", 0, "FIXED: ");
  expect("--expect fixed reference/w2 bypass/w2 divided-twice/w2", 1, "STILL THERE: ");
  expect("--expect bug reference/w2 bypass/w2", 0, "lockstep explain weights-differ");
}

TEST_F(DiffOfCells, MeasuresNoiseByThePerturbedCopies) {
  expect("reference/w2 through-wrapper/w2", 0, "noise: measured with the perturbed copies of");
}

TEST_F(DiffOfCells, HasKeysForAKnownFault) {
  expect("--format keys reference/w2 bypass/w2 >keys", 1, "");
  expect("--known keys reference/w2 bypass/w2", 0, "");
  expect("--known keys reference/w2 divided-twice/w2", 1, "");
}

TEST_F(DiffOfCells, RefusesWhatIsNoCell) {
  expect("reference/w2 reference", 64, "no record.json");
  expect("../../run ../../run", 64, "give the folder of one of its 12 cells, such as");
  fs::rename(run_folder() / "loss-on-unwrapped-module/bypass/w2/rank-1.csv",
             run_folder() / "loss-on-unwrapped-module/bypass/w2/moved");
  expect("reference/w2 bypass/w2", 64, "rank-1.csv is missing");
}

}  // namespace
}  // namespace lockstep
