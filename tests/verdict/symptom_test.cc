#include "harness/verdict/symptom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Claim kBound = at_most_reference(Kind::memory, Phase::post_backward);
constexpr LiteralEvidence::Tensor kMemory{Kind::memory, Phase::post_backward, 0};
constexpr LiteralEvidence::Tensor kStepped{Kind::parameter, Phase::post_step, 0};
constexpr LiteralEvidence::Tensor kBackward{Kind::gradient, Phase::post_backward, 0};

/// A cell of two ranks and its reference, written by hand and judged like a run.
class Symptoms : public testing::Test {
 protected:
  Symptoms() {
    for (int rank = 0; rank < 2; ++rank) exits_.push_back(exit_of(rank, ExitKind::finished, rank));
  }

  /// The same gradient on both ranks.
  void on_ranks(std::int64_t step, const std::string& name, const std::vector<float>& values) {
    for (int rank = 0; rank < 2; ++rank) files_.add(rank, step, name, values);
  }

  void undefined_on_ranks(std::int64_t step, const std::string& name) {
    for (int rank = 0; rank < 2; ++rank) files_.add_undefined(rank, step, name);
  }

  /// A wrong gradient, and `gate` without one before gradients are reduced.
  void wrong_and_undefined_before_reduction(std::int64_t step) {
    on_ranks(step, "w", {4, 8});
    reference_.add(0, step, "w", {1, 2});
    for (int rank = 0; rank < 2; ++rank) files_.add_undefined(rank, step, "gate", kBackward);
  }

  void right_steps(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      on_ranks(step, "w", {1, 2});
      reference_.add(0, step, "w", {1, 2});
    }
  }

  /// A gradient that is right only on rank 0.
  void add_apart(std::int64_t step, const std::string& name) {
    files_.add(0, step, name, {1, 2});
    files_.add(1, step, name, {5, 2});
    reference_.add(0, step, name, {1, 2});
  }

  void raise(int rank, std::int64_t step, const std::string& error, int order = 0) {
    RankExit& end = exits_.at(static_cast<std::size_t>(rank));
    end = exit_of(rank, ExitKind::raised, order, error);
    end.step = step;
  }

  Symptom symptom() {
    const StepReader evidence = files_.write();
    const StepReader reference = reference_.write();
    CellEvidence cell;
    cell.world_size = 2;
    cell.claims = claims_;
    cell.evidence = &evidence;
    cell.reference = has_reference_ ? &reference : nullptr;
    cell.exits = exits_;
    const Judgement judged = judge(cell, facts_of(cell));
    return symptom_of(facts_of(cell), judged.results, judged.wrong_values);
  }

  LiteralEvidence files_{2};
  LiteralEvidence reference_{1};
  std::vector<Claim> claims_{kAgree, kEqual, ranks_finish()};
  std::vector<RankExit> exits_;
  bool has_reference_ = true;
};

TEST_F(Symptoms, OfRanksThatHoldTheSameWhereEachShouldHaveItsOwn) {
  constexpr LiteralEvidence::Tensor kState{Kind::random_state, Phase::post_step, 0};
  claims_.push_back(differ_across_ranks(Kind::random_state, Phase::post_step));
  right_steps(1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    files_.add(rank, 1, "loader", {static_cast<float>(rank)}, kState);
    files_.add(rank, 2, "loader", {7}, kState);
  }
  const Symptom same = symptom();
  EXPECT_EQ(same.kind, SymptomKind::agree_but_wrong);
  EXPECT_EQ(same.wrong_step, 2);
  EXPECT_EQ(same.text, "ranks hold the same random states from step 2 on: loader");
}

TEST_F(Symptoms, AreRightWhereEveryClaimHolds) {
  right_steps(1, 2);
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::right);
  EXPECT_EQ(found.text, "right");
  EXPECT_EQ(found.step, 0);
}

TEST_F(Symptoms, OfACellThatOnlyClaimsThatRanksFinishAreRight) {
  on_ranks(1, "w", {9, 9});
  claims_ = {ranks_finish()};
  has_reference_ = false;
  EXPECT_EQ(symptom().text, "right");
}

TEST_F(Symptoms, OfAnErrorAreItsFirstSentence) {
  right_steps(1, 1);
  raise(0, 1,
        "Expected to mark a variable ready only once. This error is caused by one of the following "
        "reasons: 1) ...\nException raised from mark_variable_ready at reducer.cpp:1 (most recent "
        "call first):\nframe #0: c10::Error");
  exits_[1] = exit_of(1, ExitKind::raised, 1, "Connection closed by peer [::1]:9");
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::raised);
  EXPECT_EQ(found.text, "raised in step 1: Expected to mark a variable ready only once.");
  EXPECT_EQ(found.error, "Expected to mark a variable ready only once.");
  EXPECT_EQ(found.step, 1);
  EXPECT_EQ(found.wrong_step, 0);
}

TEST_F(Symptoms, OfAnErrorLeaveOutWhereItWasRaised) {
  raise(0, 1, "\n  one e.g. two Exception raised from here (call first)");
  EXPECT_EQ(symptom().text, "raised in step 1: one e.g. two");
}

TEST_F(Symptoms, OfAnErrorKeepALineShort) {
  raise(0, 1, std::string(5000, 'x'));
  EXPECT_LT(symptom().text.size(), 400U);
}

TEST_F(Symptoms, OfAnErrorThatSaysNothingSaySo) {
  raise(1, 0, "");
  EXPECT_EQ(symptom().text, "raised before the first step: an error without a message");
}

TEST_F(Symptoms, OfAPeerOfADeadRankAreItsErrorWhoeverEndedFirst) {
  raise(0, 1, "Connection reset by peer", 0);
  raise(1, 1, "the genuine reason", 1);
  EXPECT_EQ(symptom().text, "raised in step 1: the genuine reason");
}

TEST_F(Symptoms, OfTwoErrorsAreTheEarlierStepWhoeverEndedFirst) {
  raise(0, 2, "the later one", 0);
  raise(1, 1, "the earlier one", 1);
  EXPECT_EQ(symptom().text, "raised in step 1: the earlier one");
}

TEST_F(Symptoms, DoNotHangOnWhetherFinishingIsClaimed) {
  right_steps(1, 1);
  raise(0, 1, "the genuine reason");
  claims_ = {kAgree};
  EXPECT_EQ(symptom().kind, SymptomKind::raised);
}

TEST_F(Symptoms, OfAnErrorAfterAWrongStepAreRaisedLate) {
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  raise(0, 2,
        "Expected to have finished reduction in the prior iteration before starting a new "
        "one. More.");
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::raised_late);
  EXPECT_EQ(found.text,
            "raised in step 2 after a wrong step 1: Expected to have finished reduction in the "
            "prior iteration before starting a new one.");
  EXPECT_EQ(found.wrong_step, 1);
}

TEST_F(Symptoms, OfAnErrorInTheWrongStepAreNotLate) {
  right_steps(1, 1);
  on_ranks(2, "w", {4, 8});
  reference_.add(0, 2, "w", {1, 2});
  raise(0, 2, "the genuine reason");
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::raised);
  EXPECT_EQ(found.text, "raised in step 2: the genuine reason");
  EXPECT_EQ(found.wrong_step, 2);
}

TEST_F(Symptoms, OfAnErrorAfterMuchMemoryAreNotLate) {
  right_steps(1, 1);
  for (int rank = 0; rank < 2; ++rank) files_.add_whole(rank, 1, "activations", 90, kMemory);
  reference_.add_whole(0, 1, "activations", 10, kMemory);
  claims_.push_back(kBound);
  raise(0, 2, "the genuine reason");
  EXPECT_EQ(symptom().kind, SymptomKind::raised);
}

TEST_F(Symptoms, OfRanksThatPartNameTheFirstTensor) {
  right_steps(1, 1);
  files_.add(0, 2, "w", {1, 2});
  files_.add(1, 2, "w", {5, 2});
  reference_.add(0, 2, "w", {1, 2});
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::ranks_differ);
  EXPECT_EQ(found.text, "ranks differ from step 2 on: w");
  EXPECT_EQ(found.tensor, "w");
  EXPECT_EQ(found.step, 2);
  EXPECT_FALSE(found.ratio);
}

TEST_F(Symptoms, OfRanksThatPartLaterThanTheyAreWrongSayBoth) {
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  files_.add(0, 2, "w", {1, 2});
  files_.add(1, 2, "w", {5, 2});
  reference_.add(0, 2, "w", {1, 2});
  EXPECT_EQ(symptom().text, "ranks differ from step 2 on: w, after a wrong step 1");
}

TEST_F(Symptoms, OfRanksThatAreWrongEachInItsOwnWayDifferWhereNobodyClaimsThatTheyAgree) {
  files_.add(0, 1, "w", {1, 2});
  files_.add(1, 1, "w", {5, 2});
  reference_.add(0, 1, "w", {1, 2});
  claims_ = {kEqual};
  EXPECT_EQ(symptom().text, "ranks differ from step 1 on: w");
}

TEST_F(Symptoms, OfRanksThatDifferInAnotherTensorThanTheFirstWrongOneNameIt) {
  on_ranks(1, "a", {4, 8});
  reference_.add(0, 1, "a", {1, 2});
  add_apart(1, "b");
  claims_ = {kEqual};
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::ranks_differ);
  EXPECT_EQ(found.text, "ranks differ from step 1 on: b, after a wrong step 1: a");
  EXPECT_EQ(found.tensor, "b");
}

TEST_F(Symptoms, OfRanksThatDifferInALaterStepThanTheFirstWrongOneNameBoth) {
  on_ranks(1, "a", {4, 8});
  reference_.add(0, 1, "a", {1, 2});
  add_apart(2, "a");
  claims_ = {kEqual};
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::ranks_differ);
  EXPECT_EQ(found.text, "ranks differ from step 2 on: a, after a wrong step 1");
  EXPECT_EQ(found.wrong_step, 1);
}

TEST_F(Symptoms, OfRanksThatDifferInTwoTensorsNameTheFirstInExecutionOrder) {
  add_apart(1, "z");
  add_apart(1, "a");
  claims_ = {kEqual};
  EXPECT_EQ(symptom().tensor, "z");
}

TEST_F(Symptoms, OfRanksThatDifferBeforeTheFirstWrongTensorDoNotNameIt) {
  files_.add(0, 1, "a", {1, 2});
  files_.add(1, 1, "a", {1 + 0x1p-23F, 2});
  reference_.add(0, 1, "a", {1, 2});
  on_ranks(1, "b", {4, 8});
  reference_.add(0, 1, "b", {1, 2});
  claims_ = {kEqual};
  EXPECT_EQ(symptom().text, "ranks differ from step 1 on: a");
}

TEST_F(Symptoms, OfRanksThatDifferBeforeAClaimSaysSoNameTheFirst) {
  add_apart(1, "w");
  for (int rank = 0; rank < 2; ++rank) {
    files_.add(rank, 2, "p", {rank + 1.0F}, kStepped);
  }
  claims_ = {agree_across_ranks(Kind::parameter, Phase::post_step), kEqual};
  EXPECT_EQ(symptom().text, "ranks differ from step 1 on: w");
}

TEST_F(Symptoms, DifferWhereARankDidNotLookAtAnotherTensor) {
  add_apart(1, "a");
  files_.add(0, 1, "b", {4, 8});
  reference_.add(0, 1, "b", {1, 2});
  claims_ = {kEqual};
  EXPECT_EQ(symptom().kind, SymptomKind::ranks_differ);
}

TEST_F(Symptoms, OfRanksThatDifferInWhatNoBrokenClaimIsAboutAreWrong) {
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  for (int rank = 0; rank < 2; ++rank) files_.add(rank, 1, "p", {rank + 1.0F}, kStepped);
  claims_ = {kEqual};
  EXPECT_EQ(symptom().kind, SymptomKind::agree_but_wrong);
}

TEST_F(Symptoms, OfTwoClaimsBrokenInOneStepNameTheTensorOfTheFirst) {
  for (int rank = 0; rank < 2; ++rank) files_.add(rank, 1, "p", {9}, kStepped);
  reference_.add(0, 1, "p", {1}, kStepped);
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  claims_ = {kEqual, equal_reference(Kind::parameter, Phase::post_step)};
  EXPECT_EQ(symptom().tensor, "w");
}

TEST_F(Symptoms, OfRanksThatAreWrongTogetherGiveRatioAndCosine) {
  right_steps(1, 1);
  on_ranks(2, "w", {0.25F, 0.75F});
  reference_.add(0, 2, "w", {1, 2});
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::agree_but_wrong);
  EXPECT_EQ(found.text, "ranks agree but are wrong from step 2 on: w, ratio 0.35, cosine 0.9899");
  EXPECT_EQ(found.step, 2);
  EXPECT_NEAR(*found.ratio, 0.35, 1e-12);
  EXPECT_NEAR(*found.cosine, 0.98995, 1e-5);
}

TEST_F(Symptoms, OfAMultipleSayWhatItIs) {
  on_ranks(1, "w", {0.5F, 1});
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().text,
            "ranks agree but are wrong from step 1 on: w, 1/2: averaged twice over 2 ranks, or "
            "divided by 2");
}

TEST_F(Symptoms, OfAValueThatIsNotFiniteHaveNoRatio) {
  on_ranks(1, "w", {std::numeric_limits<float>::quiet_NaN(), 2});
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().text, "ranks agree but are wrong from step 1 on: w, a value is not finite");
}

TEST_F(Symptoms, OfAValueThatIsInfiniteHaveNoRatio) {
  on_ranks(1, "w", {std::numeric_limits<float>::infinity(), 0});
  reference_.add(0, 1, "w", {1, 1});
  const Symptom found = symptom();
  EXPECT_EQ(found.text, "ranks agree but are wrong from step 1 on: w, a value is not finite");
  EXPECT_FALSE(found.ratio);
  EXPECT_FALSE(found.cosine);
}

TEST_F(Symptoms, DoNotSayThatRanksAgreeWhereOneDidNotLook) {
  files_.add(0, 1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::agree_but_wrong);
  EXPECT_THAT(found.text, AllOf(HasSubstr("wrong from step 1 on: w"), Not(HasSubstr("agree"))));
}

TEST_F(Symptoms, DoNotSayThatRanksAgreeWhereOneDidNotLookInALaterStep) {
  on_ranks(1, "w", {4, 8});
  files_.add(0, 2, "w", {4, 8});
  for (const int step : {1, 2}) reference_.add(0, step, "w", {1, 2});
  EXPECT_THAT(symptom().text, StartsWith("wrong from step 1 on: w"));
}

TEST_F(Symptoms, DoNotSayThatShardsAgree) {
  for (int rank = 0; rank < 2; ++rank) files_.add(rank, 1, "w", {4, 8}).global_shape = {4};
  reference_.add(0, 1, "w", {1, 2});
  claims_ = {kEqual};
  EXPECT_THAT(symptom().text, StartsWith("wrong from step 1 on: w"));
}

TEST_F(Symptoms, DoNotSayThatReplicaGroupsAgree) {
  for (int rank = 0; rank < 2; ++rank) {
    files_.add(rank, 1, "w", {4, 8}).replica_group = group_of_one(rank);
  }
  reference_.add(0, 1, "w", {1, 2});
  claims_ = {kEqual};
  EXPECT_THAT(symptom().text, StartsWith("wrong from step 1 on: w"));
}

TEST_F(Symptoms, DoNotSayThatValuesAgreeThatCannotBeCompared) {
  for (int rank = 0; rank < 2; ++rank) {
    files_.add(rank, 1, "w", {4, 8}).not_comparable = "sparse layout";
  }
  reference_.add(0, 1, "w", {1, 2});
  claims_ = {kEqual};
  EXPECT_THAT(symptom().text, StartsWith("wrong from step 1 on: w"));
}

TEST_F(Symptoms, OfGradientsThatNobodyEverHadAreNeverTrained) {
  for (std::int64_t step = 1; step <= 2; ++step) {
    for (const char* name : {"mlp.gate.weight", "a", "b"}) {
      undefined_on_ranks(step, name);
      reference_.add(0, step, name, {1, 2});
    }
  }
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::never_trained);
  EXPECT_EQ(found.text, "never trained: mlp.gate.weight and 2 more");
  EXPECT_EQ(found.tensor, "mlp.gate.weight");
  EXPECT_EQ(found.wrong_step, 1);
}

TEST_F(Symptoms, AreNeverTrainedBeforeTheyAreDifferentAndSayBoth) {
  undefined_on_ranks(1, "gate");
  reference_.add(0, 1, "gate", {1, 2});
  add_apart(1, "head.weight");
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::never_trained);
  EXPECT_EQ(found.text, "never trained: gate, and ranks differ from step 1 on: head.weight");
  EXPECT_EQ(found.tensor, "gate");
}

TEST_F(Symptoms, AreNeverTrainedAndDifferentWhereNobodyClaimsThatRanksAgree) {
  undefined_on_ranks(1, "gate");
  reference_.add(0, 1, "gate", {1, 2});
  add_apart(1, "head.weight");
  claims_ = {kEqual};
  EXPECT_EQ(symptom().text, "never trained: gate, and ranks differ from step 1 on: head.weight");
}

TEST_F(Symptoms, AreRightWhereNoClaimIsAboutAGradientThatNobodyHad) {
  undefined_on_ranks(1, "gate");
  reference_.add(0, 1, "gate", {1, 2});
  claims_ = {ranks_finish()};
  EXPECT_EQ(symptom().text, "right");
}

TEST_F(Symptoms, AreNotNeverTrainedWhereAGradientCameOnce) {
  undefined_on_ranks(1, "w");
  reference_.add(0, 1, "w", {1, 2});
  on_ranks(2, "w", {1, 2});
  reference_.add(0, 2, "w", {1, 2});
  EXPECT_EQ(symptom().kind, SymptomKind::agree_but_wrong);
}

TEST_F(Symptoms, AreNotNeverTrainedWhereOneRankHasTheGradient) {
  files_.add(0, 1, "w", {1, 2});
  files_.add_undefined(1, 1, "w");
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().kind, SymptomKind::ranks_differ);
}

TEST_F(Symptoms, AreNotNeverTrainedWhereOneRankDidNotLook) {
  files_.add_undefined(0, 1, "w");
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_NE(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNeverTrainedWhereNoShardEverHadAGradient) {
  files_.add_undefined(0, 1, "w").replica_group = "rank 0";  // rank 1 holds no part of it
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNeverTrainedWhateverWordsSayThatThereIsNoTensor) {
  for (int rank = 0; rank < 2; ++rank) {
    files_.add_undefined(rank, 1, "w").not_comparable = "there is none";
  }
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNotNeverTrainedWhereATensorCannotBeCompared) {
  for (int rank = 0; rank < 2; ++rank) {
    files_.add(rank, 1, "w", {1, 2}).not_comparable = "undefined behaviour";
  }
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_NE(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNotNeverTrainedWhereAShardHasAGradient) {
  files_.add_undefined(0, 1, "w").replica_group = "rank 0";
  files_.add_shard(1, 1, "w", {2}, {2}, {1}, {1});
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().kind, SymptomKind::agree_but_wrong);
}

TEST_F(Symptoms, OfShardsThatAreWrongSayNothingOfAgreement) {
  files_.add_shard(0, 1, "w", {2}, {2}, {0}, {1});
  files_.add_shard(1, 1, "w", {4}, {2}, {1}, {1});
  reference_.add(0, 1, "w", {1, 2});
  EXPECT_EQ(symptom().text,
            "wrong from step 1 on: w, 2: summed over 2 ranks, never averaged, or counted 2 times");
}

TEST_F(Symptoms, AreNotNeverTrainedWhereTheReferenceHasNoGradientEither) {
  right_steps(1, 1);
  undefined_on_ranks(1, "frozen");
  reference_.add_undefined(0, 1, "frozen");
  EXPECT_EQ(symptom().kind, SymptomKind::right);
}

TEST_F(Symptoms, AreNotNeverTrainedForAnotherPointOfTheStep) {
  wrong_and_undefined_before_reduction(1);
  reference_.add_undefined(0, 1, "gate", kBackward);
  reference_.add(0, 1, "gate", {1, 2});
  EXPECT_NE(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNotNeverTrainedForAStepThatNobodySaw) {
  wrong_and_undefined_before_reduction(1);
  reference_.add_undefined(0, 1, "gate", kBackward);
  reference_.add(0, 2, "gate", {1, 2}, kBackward);
  EXPECT_NE(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, AreNotNeverTrainedForAnOwnGradientInTheReference) {
  wrong_and_undefined_before_reduction(1);
  reference_.add(0, 1, "gate", {1, 2}, kBackward).replica_group = group_of_one(0);
  EXPECT_NE(symptom().kind, SymptomKind::never_trained);
}

TEST_F(Symptoms, OfMuchMemoryGiveTheFactor) {
  right_steps(1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    files_.add_whole(rank, 1, "activations", 2500, kMemory);
    files_.add_whole(rank, 2, "activations", rank == 0 ? 3100 : 2500, kMemory);
  }
  for (const int step : {1, 2}) reference_.add_whole(0, step, "activations", 1000, kMemory);
  claims_.push_back(kBound);
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::exceeds_memory);
  EXPECT_EQ(found.text, "exceeds memory: 3.1 times the reference's");
  EXPECT_EQ(found.wrong_step, 0);
}

TEST_F(Symptoms, OfWrongValuesComeBeforeMemory) {
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  for (int rank = 0; rank < 2; ++rank) files_.add_whole(rank, 1, "activations", 9000, kMemory);
  reference_.add_whole(0, 1, "activations", 1000, kMemory);
  claims_.push_back(kBound);
  EXPECT_EQ(symptom().kind, SymptomKind::agree_but_wrong);
}

TEST_F(Symptoms, OfARankThatHangsOrDiesAreNotFinished) {
  right_steps(1, 1);
  exits_[1] = exit_of(1, ExitKind::signalled, 0);
  exits_[1].code = 6;
  exits_[1].detail = "SIGABRT";
  exits_[0] = exit_of(0, ExitKind::raised, 1, "Connection closed by peer");
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::not_finished);
  EXPECT_EQ(found.text, "not finished: rank 1 was killed by signal 6 (SIGABRT) in step 2");
}

TEST_F(Symptoms, OfARankThatDiesAfterAnUpdateSaySo) {
  right_steps(1, 1);
  exits_[1] = exit_of(1, ExitKind::signalled, 0);
  exits_[1].code = 9;
  exits_[1].detail = "SIGKILL";
  exits_[1].is_after_step = true;
  EXPECT_EQ(symptom().text, "not finished: rank 1 was killed by signal 9 (SIGKILL) after step 2");
}

TEST_F(Symptoms, OfARankThatDiesAfterAWrongStepSayBoth) {
  on_ranks(1, "w", {4, 8});
  reference_.add(0, 1, "w", {1, 2});
  for (RankExit& end : exits_) {
    end = exit_of(end.rank, ExitKind::signalled, end.rank);
    end.code = 9;
    end.detail = "SIGKILL";
  }
  const Symptom found = symptom();
  EXPECT_EQ(found.text,
            "not finished: rank 0 was killed by signal 9 (SIGKILL) in step 2 after a wrong step 1, "
            "and 1 more rank");
  EXPECT_EQ(found.wrong_step, 1);
}

TEST_F(Symptoms, OfARankThatDiesInTheWrongStepNameItOnce) {
  right_steps(1, 1);
  on_ranks(2, "w", {4, 8});
  reference_.add(0, 2, "w", {1, 2});
  exits_[1] = exit_of(1, ExitKind::unfinished, 0);
  EXPECT_THAT(symptom().text, Not(HasSubstr("wrong")));
}

TEST_F(Symptoms, OfRanksThatWaitForEachOtherAreNotFinished) {
  for (RankExit& end : exits_) {
    end = exit_of(end.rank, ExitKind::unfinished, end.rank);
    end.detail = "limit of 2 s";
    end.cause = ExitCause::time_limit;
  }
  EXPECT_EQ(symptom().text,
            "not finished: rank 0 did not finish within its limit of 2 s in step 2, and 1 more "
            "rank");
}

TEST_F(Symptoms, OfAnErrorBesideARankThatItLeftHangingAreTheError) {
  exits_[0] = exit_of(0, ExitKind::unfinished, 1);
  raise(1, 1, "the genuine reason", 0);
  EXPECT_EQ(symptom().text, "raised in step 1: the genuine reason");
}

TEST_F(Symptoms, OfAnErrorComeBeforeARankThatWasKilledEarlier) {
  exits_[0] = exit_of(0, ExitKind::signalled, 0);
  exits_[0].step = 1;
  raise(1, 2, "the genuine reason", 1);
  EXPECT_EQ(symptom().text, "raised in step 2: the genuine reason");
}

TEST_F(Symptoms, OfNothingViolatedAndNotEverythingHeldAreUndecidedForAReason) {
  on_ranks(1, "w", {1, 2});
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::undecided);
  EXPECT_EQ(found.text, "undecided: the reference has no w in step 1");
}

TEST_F(Symptoms, OfNoClaimAreUndecided) {
  right_steps(1, 1);
  claims_ = {};
  EXPECT_EQ(symptom().kind, SymptomKind::undecided);
}

TEST_F(Symptoms, OfAMismatchAreNeverRightWhateverIsClaimed) {
  right_steps(1, 1);
  for (const int rank : {0, 1}) {
    CollectiveLog log(collective_log_file(files_.folder(), rank), rank);
    Collective call;
    call.operation = "allreduce";
    call.reduction = rank == 0 ? "sum" : "max";
    call.group = "world";
    call.group_size = 2;
    call.number = 1;
    call.step = 1;
    log.leave(log.enter(call), CollectiveState::completed);
  }
  const Symptom found = symptom();
  EXPECT_EQ(found.kind, SymptomKind::mismatched);
  EXPECT_THAT(
      found.text,
      HasSubstr("mismatched: ranks disagree on the reduction of collective 1 of the group world"));
}

TEST(OutcomeOfUnrun, IsThePreconditionOrUndecided) {
  const Symptom precondition = symptom_of_unrun("needs 3 ranks");
  EXPECT_EQ(precondition.kind, SymptomKind::not_applicable);
  EXPECT_EQ(precondition.text, "not applicable: needs 3 ranks");
  EXPECT_EQ(symptom_of_unrun("").kind, SymptomKind::undecided);
}

}  // namespace
}  // namespace lockstep
