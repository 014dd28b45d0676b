// The cause of a difference, by what the training shows of itself: causes.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/command.h"
#include "tests/watch/reported.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

/// "causes.py:31", of the line that a comment marks.
std::string marked_place() {
  std::ifstream script(LOCKSTEP_SOURCE_DIR "/tests/watch/causes.py");
  int number = 0;
  for (std::string line; std::getline(script, line);) {
    ++number;
    if (line.find("# the line that a cause names") != std::string::npos) break;
  }
  return fmt::format("causes.py:{}", number);
}

/// The trainings of all tests, run once.
class Causes : public testing::Test {
 protected:
  static Reported told_of(const std::string& name) { return reported(folder().path() / name); }

 private:
  static const TemporaryFolder& folder() {
    static const TemporaryFolder folder;
    static const Outcome trained = run_shell(fmt::format(
        "env PYTHONPATH={}/share/lockstep/python {} {} bypass bypass-reduced late-bypass "
        "other-reference no-sync accumulation adapter adapter-apart adapter-reduced unfrozen "
        "outside shards-outside ignored rate plain schedule schedule-of-one plateau "
        "eval-on-one head-in-eval evaluated",
        LOCKSTEP_BUILD, forked_ranks("causes"), folder.path().string()));
    EXPECT_EQ(trained.status, 0) << trained.err;
    return folder;
  }
};

void expect_cause(int status, const std::string& text, const std::string& sentence) {
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(text, HasSubstr("FAILED: " + sentence));
  EXPECT_LE(sentence.find("Cause:"), 160U) << sentence;
}

TEST_F(Causes, NameTheForwardPassThatBypassesDdp) {
  const std::string cause = "the loss was computed on the module inside it, at ";
  for (const char* const name : {"bypass", "other-reference"}) {
    const auto [status, text] = told_of(name);
    expect_cause(status, text,
                 "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward "
                 "was never called; " +
                     cause);
    EXPECT_THAT(text, HasSubstr(marked_place()));
  }
  const auto [status, text] = told_of("late-bypass");
  expect_cause(status, text,
               "gradients were not synchronised (6 of 6, from step 4). Cause: DDP's forward was "
               "not called from step 4 on; " +
                   cause);
}

TEST_F(Causes, NameTheForwardPassesWithoutSync) {
  const auto [status, text] = told_of("no-sync");
  expect_cause(status, text,
               "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward was "
               "called in no_sync() alone at ");
  EXPECT_THAT(text, HasSubstr(marked_place()));
}

TEST_F(Causes, NameParametersThatNoWrapperKnows) {
  const auto never = [](const std::string& count, const std::string& cause) {
    return fmt::format("gradients were never synchronised ({}, from step 1). Cause: {}", count,
                       cause);
  };
  const auto [adapter, of_adapter] = told_of("adapter");
  expect_cause(adapter, of_adapter,
               never("2 of 8, all extra.*",
                     "they were added to the module, or replaced, after DDP had wrapped it"));
  const auto [unfrozen, of_unfrozen] = told_of("unfrozen");
  expect_cause(
      unfrozen, of_unfrozen,
      never("2 of 6, all second.*", "they required no gradient when DDP wrapped the module"));
  const auto [outside, of_outside] = told_of("outside");
  expect_cause(outside, of_outside, never("2 of 8", "they are in no module that DDP wraps"));
  const auto [shards, of_shards] = told_of("shards-outside");
  expect_cause(shards, of_shards, never("2 of 2", "they are in no module that fully_shard wraps"));
}

/// Each rank may have a part of its own: that is not decided, but told.
TEST_F(Causes, AreToldBesideWhatIsUndecided) {
  const auto [status, text] = told_of("adapter-apart");
  EXPECT_EQ(status, 2) << text;
  EXPECT_THAT(text, HasSubstr("at the same time, extra.bias and 1 more: they were added to the "
                              "module, or replaced, after DDP had wrapped it"));
}

TEST_F(Causes, NameOtherHyperparameters) {
  const auto [status, text] = told_of("rate");
  expect_cause(
      status, text,
      "ranks differ from step 1 on: first.weight (6 of 6 parameters). Cause: SGD.lr is 0.05 on "
      "rank 0 and 0.1 on rank 1");
}

TEST_F(Causes, NameSchedulesThatOneRankFollows) {
  const auto [status, text] = told_of("schedule-of-one");
  expect_cause(status, text,
               "ranks differ from step 4 on: first.weight (6 of 6 parameters). Cause: SGD.lr is "
               "0.005000000000000001 on rank 0 and 0.05 on rank 1");
  const auto [of_plateau, told] = told_of("plateau");
  expect_cause(of_plateau, told,
               "ranks differ from step 4 on: first.weight (6 of 6 parameters). Cause: SGD.lr is "
               "0.005000000000000001 on rank 0 and 0.05 on rank 1");
}

TEST_F(Causes, AreNoneOfTrainingsThatReduceByHand) {
  for (const char* const name :
       {"bypass-reduced", "accumulation", "adapter-reduced", "ignored", "plain", "schedule"}) {
    const auto [status, text] = told_of(name);
    EXPECT_EQ(status, 0) << text;
    EXPECT_THAT(text, Not(HasSubstr("Cause"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("at the same time"))) << name;
  }
}

/// DDP spreads what such a rank computes, so that ranks agree.
TEST_F(Causes, AreNotesOfRanksWhoseModelIsInAnotherMode) {
  const auto [status, text] = told_of("eval-on-one");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("ranks differ in the mode of Net from step 4 on: eval() on rank 1, "
                              "train() on rank 0"));
  EXPECT_THAT(told_of("head-in-eval").text,
              HasSubstr("ranks differ in the mode of Net: train() on rank 1, train(), but second "
                        "in eval() on rank 0"));
  for (const char* const name : {"evaluated", "plain"}) {
    EXPECT_THAT(told_of(name).text, Not(HasSubstr("the mode of"))) << name;
  }
}

}  // namespace
}  // namespace lockstep
