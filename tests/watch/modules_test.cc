// Outputs of modules, the gradients at them, and weights that are gathered for them: `watch
// --modules`.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/command.h"
#include "tests/watch/reported.h"
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

struct Gathering {
  const char* words;     ///< of the case of gathered_weights.py
  const char* sentence;  ///< empty: forward passes compute with what the optimizer holds
};

constexpr const char* kAll =
    "FAILED: forward passes computed with other weights than the optimizer holds ";

/// Of five steps on four ranks, by torch's own engines.
const std::vector<Gathering> kGatherings{
    {"shards", ""},
    {"shards mixed recomputed tied", ""},
    {"shards frozen offload accumulation", ""},
    {"shards averaged evaluated zero2", ""},
    {"shards sharpness", ""},
    {"pairs mixed", ""},
    {"flat accumulation", ""},
    {"flat pairs", ""},
    {"flat pairs original mixed", ""},
    {"flat original mixed tied", ""},
    {"flat original zero2 averaged evaluated", ""},
    {"flat zero2 mixed evaluated", ""},
    {"shards kept",
     "(8 of 8, from step 2). Cause: they were gathered before the optimizer's step, and not again"},
    {"pairs kept mixed", "(8 of 8, from step 2). Cause: "},
    {"shards zero2 extra", "(8 of 8, from step 2). Cause: "},
    {"flat zero2 extra", "(2 of 2, from step 2)"},
    {"flat original zero2 extra mixed", "(8 of 8, from step 2)"},
    {"shards scaled",
     "(1 of 8, from step 2) the weights of norm.weight that modules had on rank 2 are not"}};

/// All are trained once.
TEST(RealGathering, GivesForwardPassesTheWeightsThatTheOptimizerHolds) {
  const TemporaryFolder folder;
  std::vector<std::string> cases;
  for (const Gathering& one : kGatherings) cases.push_back(fmt::format("'{}'", one.words));
  const Outcome trained = run_shell(fmt::format("env PYTHONPATH={}/share/lockstep/python {} {} {}",
                                                LOCKSTEP_BUILD, forked_ranks("gathered_weights", 4),
                                                folder.path().string(), fmt::join(cases, " ")));
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const Gathering& one : kGatherings) {
    std::string name = one.words;
    std::ranges::replace(name, ' ', '-');
    const auto [status, text] = reported(folder.path() / name);
    const bool is_wrong = *one.sentence != '\0';
    EXPECT_EQ(status, is_wrong ? 1 : 0) << one.words << "\n" << text;
    if (is_wrong) {
      EXPECT_THAT(text, HasSubstr(kAll + std::string(one.sentence))) << one.words;
    }
    EXPECT_THAT(text, Not(HasSubstr("undecided: parameters"))) << one.words;
    EXPECT_THAT(text, Not(HasSubstr("at the same time"))) << one.words;
    EXPECT_THAT(text,
                HasSubstr("of forward passes were compared with what the optimizer holds, in "))
        << one.words;
  }
}

/// All are trained once.
TEST(RealTies, AreToldOnceTheyAreBroken) {
  const std::vector<std::string> broken = {"shards-apart", "split", "meta", "assigned"};
  const std::vector<std::string> healthy = {"tied",   "shards-together",     "meta-tied-again",
                                            "copied", "assigned-tied-again", "untied",
                                            "shards", "kept-equal"};
  const TemporaryFolder folder;
  const Outcome trained = run_shell(fmt::format(
      "env PYTHONPATH={}/share/lockstep/python {} {} {} {}", LOCKSTEP_BUILD, forked_ranks("ties"),
      folder.path().string(), fmt::join(broken, " "), fmt::join(healthy, " ")));
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (const std::string& name : broken) {
    const auto [status, text] = reported(folder.path() / name);
    EXPECT_EQ(status, 1) << name << "\n" << text;
    EXPECT_THAT(text, HasSubstr("a tie broke: embedding.weight and head.weight were one "
                                "parameter, and differ in step "))
        << name;
  }
  for (const std::string& name : healthy) {
    const auto [status, text] = reported(folder.path() / name);
    EXPECT_EQ(status, 0) << name << "\n" << text;
    EXPECT_THAT(text, Not(HasSubstr("a tie broke"))) << name;
  }
}

}  // namespace
}  // namespace lockstep
