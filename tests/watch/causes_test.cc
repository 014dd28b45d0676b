// The cause of a difference, by what the training shows of itself: causes.py.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/command.h"
#include "tests/watch/marked_place.h"
#include "tests/watch/reported.h"
#include "tests/watch/torchrun.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Of the line that a comment marks.
std::string place_of(const std::string& mark = "the line that a cause names") {
  return marked_place("causes.py", "# " + mark);
}

/// The trainings of all tests, run once.
class Causes : public testing::Test {
 protected:
  static Reported told_of(const std::string& name) { return reported(folder().path() / name); }

  /// `place`: that it names; empty: not asked.
  static void expect_cause(const std::string& name, const std::string& sentence,
                           const std::string& place = "") {
    const auto [status, text] = told_of(name);
    EXPECT_EQ(status, 1) << text;
    EXPECT_THAT(text, HasSubstr("FAILED: " + sentence));
    EXPECT_LE(sentence.find("Cause:"), 160U) << sentence;
    EXPECT_THAT(text, HasSubstr(place));
  }

 private:
  static const TemporaryFolder& folder() {
    static const TemporaryFolder folder;
    static const Outcome trained = run_shell(fmt::format(
        "env PYTHONPATH={}/share/lockstep/python {} {} bypass bypass-reduced late-bypass "
        "bypass-evaluated late-bypass-evaluated bypass-now-and-then "
        "other-reference no-sync accumulation adapter adapter-apart adapter-reduced unfrozen "
        "outside shards-outside shards-off shards-accumulated ignored rate plain schedule "
        "schedule-of-one plateau "
        "eval-on-one head-in-eval evaluated parts method method-metrics gone every-micro-batch "
        "alone alone-reduced adapter-alone unwrapped unwrapped-reduced unwrapped-half "
        "wrapped-again join join-momentum join-scaled join-accumulated join-reduced-twice "
        "experts expert-of-one shards-stale stale-copy stale-copy-after-another "
        "part-stale head-alone "
        "order shards-order written attack averaged state-of-one state-lost state-cleared "
        "in-backward in-backward-unwrapped in-backward-unwrapped-reduced "
        "in-backward-unwrapped-spoiled "
        "loaded-by-one loaded-by-all",
        LOCKSTEP_BUILD, forked_ranks("causes"), folder.path().string()));
    EXPECT_EQ(trained.status, 0) << trained.err;
    return folder;
  }
};

TEST_F(Causes, NameTheForwardPassThatBypassesDdp) {
  const std::string cause = "the loss was computed on the module inside it, at ";
  for (const char* const name : {"bypass", "other-reference"}) {
    expect_cause(name,
                 "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward "
                 "was never called; " +
                     cause,
                 place_of());
  }
  expect_cause("late-bypass",
               "gradients were not synchronised (6 of 6, from step 4). Cause: DDP's forward was "
               "not called from step 4 on; " +
                   cause);
}

TEST_F(Causes, SayThatDdpIsBypassedInSomeStepsAlone) {
  expect_cause("bypass-now-and-then",
               "gradients were not synchronised (6 of 6, from step 1). Cause: DDP's forward was "
               "not called in some steps, the first of them step 1; the loss was computed on the ",
               place_of());
}

/// An evaluation by the wrapper trains nothing.
TEST_F(Causes, NameTheForwardPassThatBypassesDdpThoughAnEvaluationDoesNot) {
  expect_cause("bypass-evaluated",
               "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward was "
               "never called with gradients; the loss was computed on the module inside it, at ",
               place_of());
  expect_cause("late-bypass-evaluated",
               "gradients were not synchronised (6 of 6, from step 4). Cause: DDP's forward was "
               "not called with gradients from step 4 on; ");
}

/// Also by a part or a method of the module, which the caller's line tells, and by a wrapper that
/// is gone. Collectives for other purposes do not hide it.
TEST_F(Causes, NameForwardPassesOfPartsOfTheModule) {
  const std::string never =
      "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward was never "
      "called; the loss was computed on the module inside it, at ";
  expect_cause("parts", never, place_of("the line of parts"));
  expect_cause("method", never, place_of("the line of the method"));
  expect_cause("method-metrics", never);
  expect_cause("gone",
               "gradients were not synchronised (6 of 6, from step 4). Cause: DDP's forward was "
               "not called from step 4 on; the loss was computed on the module inside it, at ",
               place_of());
}

TEST_F(Causes, NameMissingWrappersAndGroups) {
  const std::string never = "gradients were never synchronised (6 of 6, from step 1)";
  expect_cause("unwrapped", never + ". Cause: neither DDP nor FSDP wraps the module");
  expect_cause("alone", never + ". Cause: DDP's group has one rank");
  const auto [half, of_half] = told_of("unwrapped-half");  // it reduces the others by hand
  EXPECT_EQ(half, 1) << of_half;
  EXPECT_THAT(of_half, Not(HasSubstr("Cause")));
  EXPECT_THAT(of_half, Not(HasSubstr("at the same time")));
}

/// No gradient of these can be looked at after the backward pass, but no rank has called anything.
TEST_F(Causes, NameAnOptimizerThatStepsInTheBackwardPass) {
  const std::string never = "gradients were never synchronised (6 of 6, from step 1). Cause: ";
  expect_cause("in-backward",
               never + "the optimizer steps in the backward pass, before DDP, made at ",
               place_of("the line of this wrapper"));
  expect_cause("in-backward-unwrapped", never + "neither DDP nor FSDP wraps the module");
  const auto [status, text] = told_of("in-backward-unwrapped-reduced");
  EXPECT_EQ(status, 0) << text;
  const auto [spoiled, of_spoiled] = told_of("in-backward-unwrapped-spoiled");
  EXPECT_EQ(spoiled, 1) << of_spoiled;
  EXPECT_THAT(of_spoiled, Not(HasSubstr("Cause"))) << "it calls collectives";
}

/// Where all ranks write the same, no cause is asked for.
TEST_F(Causes, NameTheRanksThatWriteAfterTheWrapperHasMadeAllEqual) {
  expect_cause("loaded-by-one",
               "initial weights differ (6 of 6). Cause: they were written on rank 0 after DDP, "
               "made at ",
               place_of("the line of the wrapper") + ", had made them equal");
  const auto [status, text] = told_of("loaded-by-all");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, Not(HasSubstr("they were written")));
}

TEST_F(Causes, NameTheForwardPassesWithoutSync) {
  expect_cause("every-micro-batch",
               "gradients were not synchronised (6 of 6, from step 1). Cause: DDP's forward was "
               "called in no_sync() alone at ");
  expect_cause("no-sync",
               "gradients were never synchronised (6 of 6, from step 1). Cause: DDP's forward was "
               "called in no_sync() alone at ",
               place_of());
}

TEST_F(Causes, NameParametersThatNoWrapperKnows) {
  const auto never = [](const std::string& count, const std::string& cause) {
    return fmt::format("gradients were never synchronised ({}, from step 1). Cause: {}", count,
                       cause);
  };
  expect_cause("adapter",
               never("2 of 8, all extra.*",
                     "they were added to the module, or replaced, after DDP had wrapped it"),
               ", at " + place_of("the line of the wrapper"));
  expect_cause(
      "adapter-alone",
      never("2 of 2", "they were added to the module, or replaced, after DDP had wrapped it"));
  expect_cause("unfrozen", never("2 of 6, all second.*",
                                 "they required no gradient when DDP wrapped the module"));
  expect_cause("outside", never("2 of 8", "they are in no module that DDP wraps"));
  expect_cause("shards-outside", never("2 of 2", "they are in no module that fully_shard wraps"));
  expect_cause("shards-off",
               "gradients were never synchronised: no backward pass reduced what ranks contributed "
               "(6 of 6, from step 2). Cause: fully_shard was told not to reduce them: "
               "set_requires_gradient_sync(False), or ");
}

/// Each rank may have a part of its own: that is not decided, but told.
TEST_F(Causes, AreToldBesideWhatIsUndecided) {
  const auto [status, text] = told_of("adapter-apart");
  EXPECT_EQ(status, 2) << text;
  EXPECT_THAT(text, HasSubstr("at the same time, extra.bias and 1 more: they were added to the "
                              "module, or replaced, after DDP had wrapped it"));
}

TEST_F(Causes, NameOtherHyperparameters) {
  expect_cause(
      "rate",
      "ranks differ from step 1 on: first.weight (6 of 6 parameters). Cause: SGD.lr is 0.05 on "
      "rank 0 and 0.1 on rank 1, of the optimizer made at ",
      place_of("the line of the optimizer"));
}

TEST_F(Causes, NameAnOptimizersStateThatSomeRanksHave) {
  const std::string made = ", of the optimizer made at ";
  const std::string place = place_of("the line of the optimizer");
  expect_cause("state-of-one",
               "ranks differ from step 1 on: first.weight (6 of 6 parameters). Cause: SGD.state is "
               "empty on rank 1 and not empty on rank 0" +
                   made,
               place);
  expect_cause("state-lost",
               "ranks differ from step 4 on: first.weight (6 of 6 parameters). Cause: SGD.state is "
               "empty on rank 1 and not empty on rank 0" +
                   made,
               place);
}

/// Of a model that has no optimizer, although one was made for it.
TEST_F(Causes, NameTheOptimizerThatHoldsOtherParameters) {
  const std::string sentence =
      "weights did not change (6 of 6, from step 1). Cause: SGD holds parameters that the model "
      "does not: it was made before ";
  const std::string place = ", at " + place_of("the line of the optimizer");
  expect_cause("shards-stale", sentence + "fully_shard", place);
  expect_cause("stale-copy", sentence + "the model was copied or replaced", place);
  // In the first step both models may be trained.
  expect_cause("stale-copy-after-another",
               "weights did not change (6 of 6, from step 2). Cause: SGD holds parameters that the "
               "model does not: it was made before the model was copied or replaced",
               place);
  expect_cause("part-stale",
               "weights did not change (2 of 6, from step 1). Cause: SGD holds parameters that the "
               "model does not: it was made before a part of the model was replaced",
               place);
}

/// Each rank has made its modules in an order of its own, and takes them so in its forward pass.
TEST_F(Causes, AreNoneOfOrdersOfParametersThatMayBeRight) {
  const std::string ranks =
      "UNDECIDED: parameters have the same order on all ranks: ranks 0 and 1 have the 10 "
      "parameters of the model in ";
  for (const auto& [name, wrapper] : {std::pair("order", "DDP"), {"shards-order", "fully_shard"}}) {
    const auto [status, text] = told_of(name);
    EXPECT_EQ(status, wrapper == std::string("DDP") ? 2 : 3) << text << "3: nothing was compared";
    EXPECT_THAT(text, HasSubstr(fmt::format("{}different orders, and {} pairs them by their places",
                                            ranks, wrapper)))
        << text;
  }
}

TEST_F(Causes, AreWritesBetweenSteps) {
  const auto [status, text] = told_of("written");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(text, HasSubstr("ranks differ from step 4 on: head.weight (1 of 6 parameters). "
                              "Cause: parameters were written on rank 1 between steps 3 and 4, "
                              "outside of the optimizer"));
}

/// The training may want that.
TEST_F(Causes, AreNoneOfParametersThatNoOptimizerWasGiven) {
  const auto [status, text] = told_of("head-alone");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("note: no optimizer holds first.bias and 3 more of the 6 parameters "
                              "of the model, though they have gradients"));
}

/// The training says so by names that differ in a number.
TEST_F(Causes, AreNoneOfExpertsThatEachRankHas) {
  const auto [status, text] = told_of("experts");
  EXPECT_EQ(status, 0) << text;
  EXPECT_THAT(text, HasSubstr("in lockstep: 6 of 10 parameters compared on 2 of 2 ranks"));
  EXPECT_THAT(text, HasSubstr("not compared: experts.0.bias (4 such parameters): each rank has its "
                              "own"));
  const auto [of_one, one] = told_of("expert-of-one");
  EXPECT_EQ(of_one, 2) << one;
  EXPECT_THAT(one, HasSubstr("experts.0.bias and 1 more are each on one rank alone: if that is "
                             "meant to be, --ignore '^experts\\.' leaves them out"));
}

TEST_F(Causes, NameSchedulesThatOneRankFollows) {
  expect_cause("schedule-of-one",
               "ranks differ from step 4 on: first.weight (6 of 6 parameters). Cause: SGD.lr is "
               "0.005000000000000001 on rank 0 and 0.05 on rank 1, of the optimizer made at",
               "; StepLR took 0 steps on rank 1 and 3 on rank 0 up to step 4");
  expect_cause("plateau",
               "ranks differ from step 4 on: first.weight (6 of 6 parameters). Cause: SGD.lr is "
               "0.005000000000000001 on rank 0 and 0.05 on rank 1");
}

TEST_F(Causes, AreNoneOfTrainingsThatReduceByHand) {
  for (const char* const name :
       {"bypass-reduced", "accumulation", "adapter-reduced", "ignored", "plain", "schedule",
        "alone-reduced", "shards-accumulated", "unwrapped-reduced", "wrapped-again", "averaged",
        "attack", "state-cleared"}) {
    const auto [status, text] = told_of(name);
    EXPECT_EQ(status, 0) << text;
    EXPECT_THAT(text, Not(HasSubstr("Cause"))) << name;
    EXPECT_THAT(text, Not(HasSubstr("at the same time"))) << name;
  }
}

/// Rank 1 trains steps 1 to 4 and 7 to 10, and rank 0 steps 1 to 12.
TEST_F(Causes, AreNoneOfARankThatJoinsBecauseItsDataEnds) {
  for (const char* const name : {"join", "join-accumulated"}) {
    const auto [status, text] = told_of(name);
    EXPECT_EQ(status, 0) << text;
    EXPECT_THAT(text, HasSubstr("in lockstep: 6 of 6 parameters compared on 2 of 2 ranks, 12 "
                                "steps, 1 to 12"));
    EXPECT_THAT(text, HasSubstr("rank 1 had joined after step 4 (torch's Join: no more data), and "
                                "1 time more: compared with the others again after step 6"));
  }
  const auto [status, text] = told_of("join-reduced-twice");  // a step is no forward pass there
  EXPECT_EQ(status, 2) << text;
  EXPECT_THAT(text, HasSubstr("how many steps they trained meanwhile is unknown"));
}

TEST_F(Causes, AreFoundAlthoughARankHasJoined) {
  const auto [status, text] = told_of("join-scaled");
  EXPECT_EQ(status, 1) << text;
  EXPECT_THAT(text, HasSubstr("FAILED: ranks differ from step 8 on: "));
  EXPECT_THAT(text, Not(HasSubstr("Cause")));
  expect_cause("join-momentum",
               "ranks differ from step 7 on: first.weight (6 of 6 parameters). Cause: rank 1 had "
               "joined in steps 5 to 6 (torch's Join), of which its optimizer keeps nothing");
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
