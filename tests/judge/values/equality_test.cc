#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "harness/compare/bound.h"
#include "harness/judge/values/expected_values.h"
#include "reports/base/error.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// `ranks` ranks and a reference.
struct Pair {
  explicit Pair(int ranks) : files(ranks), expected(1) {}

  ClaimResult judged() const {
    const StepReader reference = expected.write();
    return judge_one(kEqual, files.write(), &reference);
  }

  LiteralEvidence files;
  LiteralEvidence expected;
};

TEST(Equality, OfEqualBitsOfAnotherDTypeIsViolated) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {0});
  pair.files.add(0, 1, "w", {0}).dtype = "int32";
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("is int32 on rank 0 but is float32 in the reference"));
}

TEST(Equality, OfEqualBitsOfAnotherShapeIsViolated) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {1, 2});
  pair.files.add(0, 1, "w", {1, 2, 0});
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("[3] on rank 0 but has the shape [2] in the reference"));
}

/// How long the optimizer's step is says nothing about numbers of ranks.
TEST(Equality, OfAnUpdateTellsItsMultipleWithoutACause) {
  constexpr LiteralEvidence::Tensor kUpdate{Kind::update, Phase::post_step, 0};
  LiteralEvidence files(2), expected(1);
  expected.add(0, 2, "w", {0.5F, -0.25F, 1}, kUpdate);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 2, "w", {0.25F, -0.125F, 0.5F}, kUpdate);
  const StepReader reference = expected.write();
  const ClaimResult result =
      judge_one(equal_reference(Kind::update, Phase::post_step), files.write(), &reference);
  ASSERT_EQ(result.verdict, Verdict::violated);
  const Finding& finding = result.findings.at(0);
  EXPECT_EQ(finding.kind, FindingKind::wrong_update);
  ASSERT_TRUE(finding.multiple);
  EXPECT_EQ(finding.multiple->factor, 0.5);
  EXPECT_TRUE(finding.multiple->causes.empty());
  EXPECT_THAT(finding.sentence, HasSubstr("1/2 of the right value"));
}

/// Beside a parameter of 1, an update of 1e-4 in float32 is known to a thousandth.
TEST(Equality, OfAnUpdateHasTheRoundingOfItsParameter) {
  constexpr LiteralEvidence::Tensor kUpdate{Kind::update, Phase::post_step, 0};
  constexpr LiteralEvidence::Tensor kParameter{Kind::parameter, Phase::post_step, 0};
  const auto verdict = [&](float parameter, float update) {
    LiteralEvidence files(1), expected(2);  // the second one is perturbed
    for (int rank = 0; rank < 2; ++rank) {
      expected.add(rank, 1, "w", {1e-4F + 1e-11F * static_cast<float>(rank), 1e-4F}, kUpdate);
      expected.add(rank, 1, "w", {parameter, parameter}, kParameter);
    }
    files.add(0, 1, "w", {update, 1e-4F}, kUpdate);
    const StepReader reference = expected.write();
    return judge_one(equal_reference(Kind::update, Phase::post_step), files.write(), &reference)
        .verdict;
  };
  EXPECT_EQ(verdict(1, 1e-4F + 0x1p-23F), Verdict::holds);
  EXPECT_EQ(verdict(1e-4F, 1e-4F + 0x1p-23F), Verdict::violated);
  EXPECT_EQ(verdict(1, 1.1e-4F), Verdict::violated);
}

TEST(Equality, IsViolatedAboveTenTolerances) {
  Pair pair(1);
  const auto tolerance = static_cast<float>(rounding_tolerance(std::ldexp(1, -24), 1));
  pair.expected.add(0, 1, "w", {1});
  pair.files.add(0, 1, "w", {1 + 12 * tolerance});
  EXPECT_EQ(pair.judged().verdict, Verdict::violated);
}

TEST(Equality, WithAReferenceOfZerosAllowsTheSignOnly) {
  Pair same(1);
  same.expected.add(0, 1, "w", {0.0F});
  same.files.add(0, 1, "w", {-0.0F});
  EXPECT_EQ(same.judged().verdict, Verdict::holds);
  Pair other(1);
  other.expected.add(0, 1, "w", {0});
  other.files.add(0, 1, "w", {1e-30F});
  EXPECT_EQ(other.judged().verdict, Verdict::violated);
}

TEST(Equality, IsRelativeToTheTensorItselfHoweverSmallItIsBesideOthers) {
  Pair pair(1);
  for (LiteralEvidence* side : {&pair.files, &pair.expected}) side->add(0, 1, "a large", {1e4F});
  pair.expected.add(0, 1, "small", {0.1F});
  pair.files.add(0, 1, "small", {0.101F});
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).tensor, "small");
  EXPECT_NEAR(*result.findings.at(0).relative_difference, 0.01, 1e-6);
}

TEST(Equality, OfOtherBitsWhoseValuesAreLostIsUndecided) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {1});
  pair.files.add(0, 1, "w", {2});
  pair.files.lose_values(0, 1);
  EXPECT_EQ(pair.judged().verdict, Verdict::undecided);
}

TEST(Equality, WhereARankStoppedLookingIsUndecided) {
  Pair pair(2);
  pair.expected.add(0, 1, "w", {1});
  pair.files.add(0, 1, "w", {1});
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("w in step 1 was not observed on rank 1"));
}

TEST(Equality, WhereNeitherSideHasAValueNothingWasCompared) {
  Pair pair(1);
  pair.expected.add_undefined(0, 1, "w");
  pair.files.add_undefined(0, 1, "w");
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.comparisons, 0);
}

TEST(Equality, ThatIsViolatedNeedsNoReasonForWhatWasNotSeen) {
  Pair pair(2);
  pair.expected.add(0, 1, "w", {1});
  pair.files.add(0, 1, "w", {2});
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.reason, "");
}

TEST(Equality, KnowsAnOwnGradientByItsStepAndName) {
  Pair pair(1);
  pair.expected.add(0, 1, "v", {1, 5}, {Kind::gradient, Phase::post_backward, 0}).replica_group =
      group_of_one(0);
  pair.expected.add(0, 2, "w", {1, 5}, {Kind::gradient, Phase::post_backward, 0}).replica_group =
      group_of_one(0);
  pair.expected.add(0, 1, "w", {2, 3});
  pair.files.add(0, 1, "w", {1, 5});
  EXPECT_THAT(pair.judged().findings.at(0).sentence, Not(HasSubstr("own gradient")));
}

TEST(Equality, NamesTheRankWhoseGradientItIs) {
  Pair pair(2);
  pair.expected.add(0, 1, "w", {1, 5}, {Kind::gradient, Phase::post_backward, 0}).replica_group =
      group_of_one(0);
  pair.expected.add(0, 1, "w", {2, 3});
  pair.files.add(0, 1, "w", {2, 3});
  pair.files.add(1, 1, "w", {1, 5});
  EXPECT_THAT(pair.judged().findings.at(0).sentence, HasSubstr("it is rank 0's own gradient"));
}

/// Rank 0 differs in step 2 by 0.5; rank 1 in step 1 by 9 and in step 2 by 0.25.
Finding found_on_two_ranks() {
  Pair pair(2);
  for (int step = 1; step <= 2; ++step) pair.expected.add(0, step, "w", {1});
  pair.files.add(0, 1, "w", {1});
  pair.files.add(0, 2, "w", {1.5F});
  pair.files.add(1, 1, "w", {10});
  pair.files.add(1, 2, "w", {1.25F});
  return pair.judged().findings.at(0);
}

TEST(Equality, NamesTheFirstPlaceAndAllRanksThatAreOff) {
  const Finding finding = found_on_two_ranks();
  EXPECT_EQ(finding.step, 1);
  EXPECT_EQ(finding.first_difference->left, "rank 1");
  EXPECT_EQ(finding.places, 3);
  EXPECT_THAT(finding.groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(finding.sentence, HasSubstr("on rank 1 (2 of 2 ranks are off)"));
}

TEST(Equality, TellsHowFarTheLastStepGoes) {
  const Finding finding = found_on_two_ranks();
  EXPECT_EQ(finding.last_step, 2);
  EXPECT_EQ(finding.last_worst_difference, 0.5);
}

TEST(Equality, ForgetsWhatEarlierStepsHadInTheLast) {
  Pair pair(1);
  for (int step = 1; step <= 2; ++step) pair.expected.add(0, step, "w", {1});
  pair.files.add(0, 1, "w", {9});
  pair.files.add(0, 2, "w", {1.5F});
  EXPECT_EQ(pair.judged().findings.at(0).last_worst_difference, 0.5);
}

TEST(RoundingTolerance, GrowsWithTheRanks) {
  EXPECT_EQ(rounding_tolerance(0x1p-24, 1), 0x1p-23);
  EXPECT_EQ(rounding_tolerance(0x1p-24, 4), 0x1p-21);
  EXPECT_EQ(summation_tolerance(0x1p-24, 1), 0x1p-23);
  EXPECT_EQ(summation_tolerance(0x1p-24, 4), 0x1p-22);
}

/// A rank and a reference with a perturbed process that holds another value.
ClaimResult judged_beside_perturbed(float actual, float reference, float perturbed) {
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  for (const char* name : {"w", "steady"}) {
    files.add(0, 1, name, {name[0] == 'w' ? actual : 1});
    expected.add(0, 1, name, {name[0] == 'w' ? reference : 1});
    expected.add(1, 1, name, {name[0] == 'w' ? perturbed : 1});
  }
  const StepReader evidence = expected.write();
  return judge_one(kEqual, files.write(), &evidence);
}

TEST(Equality, AllowsWhatPerturbedInputsMove) {
  const ClaimResult moved = judged_beside_perturbed(1.005F, 1, 1.001F);
  EXPECT_EQ(moved.verdict, Verdict::holds);
  EXPECT_EQ(moved.tolerance_from, "1 perturbed references");
  EXPECT_NEAR(*moved.tolerance, kPerturbationFactor * 0.001, 1e-5);
  EXPECT_NEAR(*moved.margin, 0.005 / (kPerturbationFactor * 0.001), 1e-3);
}

TEST(Equality, IsNotSoftenedByAReferenceThatStaysWhereItWas) {
  const ClaimResult result = judged_beside_perturbed(1.005F, 1, 1);
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.tolerance_from, "roundings of a sum over the ranks; no input was perturbed");
}

TEST(StillCopies, AreThoseOfAReferenceWhoseInputsNobodyPerturbed) {
  for (const float copy : {1.0F, 1.5F}) {
    LiteralEvidence files(2);
    files.add(0, 1, "w", {1});
    files.add(1, 1, "w", {copy});
    const StepReader reference = files.write();
    CellEvidence cell;
    cell.world_size = 1;
    cell.claims = {kEqual};
    cell.evidence = cell.reference = &reference;
    EXPECT_EQ(judge(cell, facts_of(cell)).has_still_copies, copy == 1);
  }
}

TEST(Equality, FindsAFaultTenTimesWhatPerturbedInputsMove) {
  EXPECT_EQ(judged_beside_perturbed(1.1F, 1, 1.001F).verdict, Verdict::violated);
  EXPECT_EQ(judged_beside_perturbed(1.02F, 1, 1.001F).verdict, Verdict::undecided);
}

TEST(Equality, DoesNotLetOneTensorSoftenAnother) {
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  files.add(0, 1, "steady", {1.001F});
  files.add(0, 1, "moving", {1});
  for (int rank = 0; rank < 2; ++rank) {
    expected.add(rank, 1, "steady", {1});
    expected.add(rank, 1, "moving", {rank == 0 ? 1 : 1.01F});
  }
  const StepReader evidence = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &evidence);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).tensor, "steady");
}

TEST(Equality, CarriesRoundingOnWhereNothingWasPerturbed) {
  const auto tolerance = static_cast<float>(rounding_tolerance(0x1p-24, 1));
  for (const auto& [step, verdict] : {std::pair(1, Verdict::undecided), {9, Verdict::holds}}) {
    Pair pair(1);
    pair.expected.add(0, step, "w", {1});
    pair.files.add(0, step, "w", {1 + 8 * tolerance});
    EXPECT_EQ(pair.judged().verdict, verdict) << step;
  }
}

TEST(Equality, IsNotSoftenedByCountersBesideIt) {
  Pair pair(1);
  for (LiteralEvidence* side : {&pair.files, &pair.expected}) {
    Observation& counter = side->add(0, 1, "batches", {0x1p100F});
    counter.dtype = "int32";
    counter.not_comparable = "kept elsewhere";
  }
  pair.expected.add(0, 1, "w", {1});
  pair.files.add(0, 1, "w", {2});
  EXPECT_EQ(pair.judged().verdict, Verdict::violated);
}

TEST(Equality, AllowsNoDifferenceBetweenWholeNumbers) {
  Pair pair(1);
  pair.expected.add(0, 1, "batches", {1}).dtype = "int32";
  pair.files.add(0, 1, "batches", {1 + 0x1p-23F}).dtype = "int32";
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("1 of 1 whole numbers differ"));
}

TEST(Equality, WithAReferenceThatIsNotFiniteIsUndecided) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
    Pair pair(1);
    for (LiteralEvidence* side : {&pair.files, &pair.expected}) side->add(0, 1, "w", {value, 1});
    const ClaimResult result = pair.judged();
    EXPECT_EQ(result.verdict, Verdict::undecided);
    EXPECT_THAT(result.reason, HasSubstr("w in step 1 is not finite in the reference"));
  }
}

TEST(Equality, OfAValueThatIsNotFiniteHasNoRatio) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& values : {std::vector{infinity, 0.0F}, {infinity, 1}}) {
    Pair pair(1);
    pair.expected.add(0, 1, "w", {1, 1});
    pair.files.add(0, 1, "w", values);
    const Finding finding = pair.judged().findings.at(0);
    SCOPED_TRACE(finding.sentence);
    EXPECT_TRUE(std::isnan(finding.worst_difference));
    EXPECT_EQ(finding.kind, FindingKind::not_finite);
    EXPECT_FALSE(finding.ratio);
    EXPECT_FALSE(finding.cosine);
    EXPECT_EQ(origin_in_words(finding), "");
    EXPECT_THAT(finding.sentence, HasSubstr("a value is not finite; element [0] is inf"));
  }
}

TEST(Equality, OfOtherBitsOfTheSameNumberIsNotBitwise) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {0.0F, 1});
  pair.files.add(0, 1, "w", {-0.0F, 1});
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_GT(result.margin.value(), 0);
}

TEST(Equality, IsUndecidedWhereTheReferenceItselfIsNotStable) {
  for (const float actual : {0.0F, 0.5F, 2.0F, 300.0F}) {
    const ClaimResult result = judged_beside_perturbed(actual, 1, 9);
    EXPECT_EQ(result.verdict, Verdict::undecided) << actual;
    EXPECT_THAT(result.reason, HasSubstr("the reference is not stable here: in step 1, "
                                         "changing the last bit of the inputs moves w by 8 of its "
                                         "signal"));
  }
}

TEST(Equality, HoldsForTheVeryBitsOfAReferenceThatIsNotStable) {
  EXPECT_EQ(judged_beside_perturbed(1, 1, 9).verdict, Verdict::holds);
}

/// A rank that holds `actual` of a tensor that consists of rounding errors, such as the gradient of
/// a bias that softmax ignores.
Verdict judged_roundings(float actual) {
  LiteralEvidence files(1);
  LiteralEvidence expected(5);
  files.add(0, 1, "w", {100});
  files.add(0, 1, "roundings", {actual});
  for (int copy = 0; copy < 5; ++copy) {
    expected.add(copy, 1, "w", {copy == 0 ? 100 : 100.0001F});
    expected.add(copy, 1, "roundings", {1e-7F * static_cast<float>(copy - 2)});
  }
  const StepReader evidence = expected.write();
  return judge_one(kEqual, files.write(), &evidence).verdict;
}

TEST(Equality, OfATensorOfRoundingsAloneHolds) {
  EXPECT_EQ(judged_roundings(-2e-7F), Verdict::holds);
}

TEST(Equality, OfATensorOfRoundingsAloneDoesNotExcuseWhatIsNotFinite) {
  EXPECT_EQ(judged_roundings(std::numeric_limits<float>::quiet_NaN()), Verdict::violated);
}

TEST(Equality, IsUndecidedWhereAPerturbedReferenceEndedBefore) {
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  for (std::int64_t step = 1; step <= 3; ++step) {
    files.add(0, step, "w", {step == 3 ? 1.005F : 1});
    expected.add(0, step, "w", {1});
    if (step < 3) expected.add(1, step, "w", {1.001F});
  }
  const StepReader evidence = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &evidence);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason,
            "perturbed reference 1 has no value of w in step 3, so the tolerance is unknown");
}

/// Whole numbers of one rank compared with those of the reference, 4, and of a perturbed copy.
Verdict judged_counts(std::int64_t copy, std::int64_t actual) {
  const LiteralEvidence::Tensor counts{Kind::buffer, Phase::post_step};
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  files.add_whole(0, 1, "counts", actual, counts);
  expected.add_whole(0, 1, "counts", 4, counts);
  expected.add_whole(1, 1, "counts", copy, counts);
  const StepReader evidence = expected.write();
  return judge_one(equal_reference(Kind::buffer, Phase::post_step), files.write(), &evidence)
      .verdict;
}

TEST(Equality, OfWholeNumbersIsUndecidedWhereACopyHasOthers) {
  EXPECT_EQ(judged_counts(4, 4), Verdict::holds);
  EXPECT_EQ(judged_counts(4, 5), Verdict::violated);
  EXPECT_EQ(judged_counts(5, 4), Verdict::holds);
  EXPECT_EQ(judged_counts(5, 5), Verdict::undecided);
}

TEST(Equality, OfAParameterAllowsTheRoundingsOfItsFirstValue) {
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  const LiteralEvidence::Tensor parameter{Kind::parameter, Phase::post_step};
  files.add(0, 1, "w", {0.001F + 1e-8F}, parameter);
  expected.add(0, 1, "w", {0.1F}, {Kind::parameter, Phase::post_backward, 0}).replica_group =
      group_of_one(0);
  for (int copy = 0; copy < 2; ++copy) {
    expected.add(copy, 1, "w", {0.001F + 2e-10F * copy}, parameter);
  }
  const StepReader reference = expected.write();
  const StepReader evidence = files.write();
  const Claim claim = equal_reference(Kind::parameter, Phase::post_step);
  EXPECT_EQ(judge_one(claim, evidence, &reference).verdict, Verdict::holds);
}

/// Of 100 and -99.99, times `size`.
Verdict judged_after_cancelling(float size) {
  LiteralEvidence files(2);
  LiteralEvidence expected(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {(0.005F + 6e-6F) * size});
    expected
        .add(0, 1, "w", {(rank == 0 ? 100 : -99.99F) * size},
             {Kind::gradient, Phase::post_backward, rank})
        .replica_group = group_of_one(rank);
  }
  for (int copy = 0; copy < 2; ++copy) expected.add(copy, 1, "w", {(0.005F + 1e-9F * copy) * size});
  const StepReader evidence = expected.write();
  return judge_one(kEqual, files.write(), &evidence).verdict;
}

TEST(Equality, AllowsTheRoundingsOfSummandsThatCancel) {
  EXPECT_EQ(judged_after_cancelling(1), Verdict::holds);
  EXPECT_EQ(judged_after_cancelling(1e-6F), Verdict::holds) << "however small they are";
}

/// Ranks whose mean of ones differs by four roundings, compared with copies that hold exactly its
/// bits.
Verdict judged_mean_of_ones(int ranks) {
  LiteralEvidence files(ranks);
  LiteralEvidence expected(2);
  for (int rank = 0; rank < ranks; ++rank) {
    files.add(rank, 1, "w", {1 + 0x1p-22F});
    files.add(rank, 1, "moved", {1});
    for (const char* name : {"w", "moved"}) {
      expected.add(0, 1, name, {1}, {Kind::gradient, Phase::post_backward, rank}).replica_group =
          group_of_one(rank);
    }
  }
  for (int copy = 0; copy < 2; ++copy) {
    expected.add(copy, 1, "w", {1});
    expected.add(copy, 1, "moved", {1 + 0x1p-23F * static_cast<float>(copy)});
  }
  const StepReader evidence = expected.write();
  return judge_one(kEqual, files.write(), &evidence).verdict;
}

TEST(Equality, AllowsTheRoundingsOfManySummandsThatNoCopyMakes) {
  EXPECT_EQ(judged_mean_of_ones(2), Verdict::undecided);
  EXPECT_EQ(judged_mean_of_ones(8), Verdict::holds);
}

TEST(Equality, IsUndecidedWhereTheReferenceOfAnotherClaimIsNotStable) {
  const LiteralEvidence::Tensor parameter{Kind::parameter, Phase::post_step};
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  files.add(0, 1, "w", {1});
  files.add(0, 1, "w", {2}, parameter);
  for (int copy = 0; copy < 2; ++copy) {
    expected.add(copy, 1, "w", {copy == 0 ? 1.0F : -1.0F});
    expected.add(copy, 1, "w", {1}, parameter);
  }
  const StepReader evidence = files.write();
  const StepReader reference = expected.write();
  CellEvidence cell;
  cell.world_size = 1;
  cell.claims = {equal_reference(Kind::parameter, Phase::post_step), kEqual};
  cell.evidence = &evidence;
  cell.reference = &reference;
  const ClaimResult result = judge(cell).front();
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("the reference is not stable here: in step 1"));
}

/// Gradients that are clipped from their norm of 1.4e8 to 1.4, compared with `actual`.
Verdict judged_behind_clipping(const std::vector<float>& actual) {
  LiteralEvidence files(2);
  LiteralEvidence expected(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", actual);
    expected.add(0, 1, "w", {1e8F, 1e8F}, {Kind::gradient, Phase::post_backward, rank})
        .replica_group = group_of_one(rank);
  }
  for (int copy = 0; copy < 2; ++copy) expected.add(copy, 1, "w", {1, copy == 0 ? 1 : 1.0001F});
  const StepReader evidence = expected.write();
  return judge_one(kEqual, files.write(), &evidence).verdict;
}

TEST(Equality, OfClippedGradientsIsRelativeToWhatClippingLeaves) {
  EXPECT_EQ(judged_behind_clipping({1, 1}), Verdict::holds);
  EXPECT_EQ(judged_behind_clipping({0, 0}), Verdict::violated);
  EXPECT_EQ(judged_behind_clipping({0.5F, 0.5F}), Verdict::violated) << "one rank is missing";
}

/// A gradient of 256 elements, the mean of the contributions of `kOwners` ranks. The elements of
/// the copies differ by 2 % of a typical one, as in bfloat16.
class NoisyGradient {
 public:
  static constexpr int kOwners = 8;

  explicit NoisyGradient(float noise = 0.02F) : noise_(noise), files_(kOwners), expected_(5) {
    for (int owner = 0; owner < kOwners; ++owner) {
      own_.push_back(drawn(1));
      for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += own_.back()[i] / kOwners;
      expected_.add(0, 1, "w", own_.back(), {Kind::gradient, Phase::post_backward, owner})
          .replica_group = group_of_one(owner);
    }
    for (int copy = 0; copy < 5; ++copy) expected_.add(copy, 1, "w", copy == 0 ? mean_ : noisy());
  }

  const std::vector<float>& own(int owner) const { return own_[static_cast<std::size_t>(owner)]; }
  const std::vector<float>& mean() const { return mean_; }

  std::vector<float> noisy() {
    std::vector<float> values = drawn(noise_ / std::sqrt(static_cast<float>(kOwners)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += mean_[i];
    return values;
  }

  ClaimResult judged(const std::vector<float>& actual) {
    for (int rank = 0; rank < kOwners; ++rank) files_.add(rank, 1, "w", actual);
    return result();
  }

  /// The same with each rank holding only its shard.
  ClaimResult judged_in_shards(const std::vector<float>& actual) {
    constexpr std::int64_t kShard = 256 / kOwners;
    for (int rank = 0; rank < kOwners; ++rank) {
      const auto begin = actual.begin() + rank * kShard;
      files_.add_shard(rank, 1, "w", {begin, begin + kShard}, {256}, {rank * kShard}, {kShard});
    }
    return result();
  }

 private:
  ClaimResult result() {
    const StepReader reference = expected_.write();
    return judge_one(kEqual, files_.write(), &reference);
  }

  std::vector<float> drawn(float scale) {
    std::vector<float> values(256);
    for (float& value : values) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      value = scale * (static_cast<float>(state_ >> 40) / 0x1p23F - 1);
    }
    return values;
  }

  float noise_;  ///< as a fraction of a typical element
  LiteralEvidence files_, expected_;
  std::uint64_t state_ = 1;
  std::vector<std::vector<float>> own_;
  std::vector<float> mean_ = std::vector<float>(256);
};

std::vector<float> times(float factor, std::vector<float> values) {
  for (float& value : values) value *= factor;
  return values;
}

TEST(Equality, OfANoisyGradientHolds) {
  NoisyGradient gradient;
  EXPECT_EQ(gradient.judged(gradient.noisy()).verdict, Verdict::holds);
}

TEST(Equality, FindsAFaultOfAKnownKindBelowTenTimesTheNoise) {
  for (const float factor : {0.0F, 0.5F, 2.0F, -1.0F}) {
    NoisyGradient gradient;
    EXPECT_EQ(gradient.judged(times(factor, gradient.noisy())).verdict, Verdict::violated)
        << factor;
  }
  NoisyGradient gradient;
  const Finding finding = gradient.judged(times(0.5F, gradient.noisy())).findings.at(0);
  EXPECT_THAT(finding.sentence, HasSubstr("it differs by -0.5"));
  EXPECT_THAT(finding.sentence, HasSubstr(" times the reference, tolerance 0.0"));
  EXPECT_THAT(finding.sentence, HasSubstr("1/2: divided by 2"));
}

TEST(Equality, FindsAFaultOfAKnownKindInShards) {
  constexpr float kNoise = 0.08F;  // 8 times this hides a halved gradient
  NoisyGradient healthy(kNoise);
  EXPECT_EQ(healthy.judged_in_shards(healthy.noisy()).verdict, Verdict::holds);
  for (const float factor : {0.0F, 0.5F, 2.0F}) {
    NoisyGradient gradient(kNoise);
    const ClaimResult result = gradient.judged_in_shards(times(factor, gradient.noisy()));
    EXPECT_EQ(result.verdict, Verdict::violated) << factor << result.reason;
  }
}

TEST(Equality, FindsTheRankThatIsMissingFromAMean) {
  NoisyGradient gradient;
  std::vector<float> without = gradient.noisy();
  for (std::size_t i = 0; i < without.size(); ++i) {
    without[i] -= gradient.own(5)[i] / NoisyGradient::kOwners;
  }
  const ClaimResult result = gradient.judged(without);
  ASSERT_EQ(result.verdict, Verdict::violated) << result.reason;
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr(" times rank 5's own gradient, tolerance 0.0"));
}

TEST(Equality, FindsTheGradientOfAnotherTensor) {
  NoisyGradient gradient;
  std::vector<float> foreign = gradient.noisy();
  std::reverse(foreign.begin(), foreign.end());
  EXPECT_EQ(gradient.judged(foreign).verdict, Verdict::violated);
}

TEST(Equality, CountsEveryPerturbedReference) {
  for (int moving = 1; moving < 5; ++moving) {
    LiteralEvidence files(1);
    LiteralEvidence expected(5);
    files.add(0, 1, "w", {1.005F});
    for (int copy = 0; copy < 5; ++copy) {
      expected.add(copy, 1, "w", {copy == moving ? 1.001F : 1.0F});
    }
    const StepReader evidence = expected.write();
    EXPECT_EQ(judge_one(kEqual, files.write(), &evidence).verdict, Verdict::holds) << moving;
  }
}

TEST(Equality, IsRelativeToItsOwnStep) {
  for (const auto& [step, verdict] : {std::pair(1, Verdict::holds), {2, Verdict::violated}}) {
    LiteralEvidence files(1);
    LiteralEvidence expected(2);
    for (int each = 1; each <= 2; ++each) {
      const float size = each == 1 ? 1000 : 1;
      files.add(0, each, "w", {size + (each == step ? 0.5F : 0)});
      expected.add(0, each, "w", {size});
      expected.add(1, each, "w", {size * 1.001F});
    }
    const StepReader evidence = expected.write();
    EXPECT_EQ(judge_one(kEqual, files.write(), &evidence).verdict, verdict) << step;
  }
}

TEST(Equality, FindsWhatIsWrongInTheLastStepAlone) {
  Pair pair(2);
  for (int step = 1; step <= 3; ++step) {
    pair.expected.add(0, step, "w", {1});
    for (int rank = 0; rank < 2; ++rank) pair.files.add(rank, step, "w", {step == 3 ? 2.0F : 1.0F});
  }
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).step, 3);
}

TEST(Equality, AllowsRoundingsOfSubnormalNumbers) {
  constexpr float kStep = 0x1p-149F;
  Pair pair(1);
  pair.expected.add(0, 1, "w", {3 * kStep, -5 * kStep, 0, 2 * kStep});
  pair.files.add(0, 1, "w", {4 * kStep, -5 * kStep, kStep, 2 * kStep});
  EXPECT_EQ(pair.judged().verdict, Verdict::holds);
}

TEST(Equality, WithAReferenceOfZerosSaysTheSizeOfTheDifference) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {0, 0});
  pair.files.add(0, 1, "w", {3, 4});
  const Finding finding = pair.judged().findings.at(0);
  EXPECT_THAT(finding.sentence, HasSubstr("the reference is 0, and the norm is 5, tolerance"));
  EXPECT_EQ(finding.relative_difference, 5);
}

/// Parameters of the value 1 that move by `ulps` in a step, compared with ranks that hold `actual`.
Verdict judged_parameters(int ulps, float actual) {
  const LiteralEvidence::Tensor stepped{Kind::parameter, Phase::post_step};
  const float moved = 1 + static_cast<float>(ulps) * 0x1p-23F;
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  files.add(0, 1, "w", std::vector<float>(64, actual), stepped);
  expected.add(0, 1, "w", std::vector<float>(64, 1), {Kind::parameter, Phase::post_backward})
      .replica_group = group_of_one(0);
  for (int copy = 0; copy < 2; ++copy) {
    std::vector<float> values(64, moved);
    if (copy == 1) values[7] = 1 + static_cast<float>(ulps + 1) * 0x1p-23F;
    expected.add(copy, 1, "w", values, stepped);
  }
  const StepReader evidence = expected.write();
  return judge_one(equal_reference(Kind::parameter, Phase::post_step), files.write(), &evidence)
      .verdict;
}

TEST(Equality, OfParametersIsRelativeToHowFarTheyMoved) {
  EXPECT_EQ(judged_parameters(3, 1 + 3 * 0x1p-23F), Verdict::holds);
  EXPECT_EQ(judged_parameters(3, 1), Verdict::violated);  // no training took place
  EXPECT_EQ(judged_parameters(4, 1 + 2 * 0x1p-23F), Verdict::violated);
}

/// A parameter of ones that training does not change, compared with ranks that hold `actual`.
/// Another parameter is trained and moves in the copies. `gradient`: of the first.
Verdict judged_frozen(float actual, float gradient = 0) {
  const LiteralEvidence::Tensor stepped{Kind::parameter, Phase::post_step};
  LiteralEvidence files(1);
  LiteralEvidence expected(2);
  files.add(0, 1, "frozen", {actual, 1, 1, 1}, stepped);
  files.add(0, 1, "w", {2}, stepped);
  expected.add(0, 1, "frozen", {1, 1, 1, 1}, {Kind::parameter, Phase::post_backward})
      .replica_group = group_of_one(0);
  for (int copy = 0; copy < 2; ++copy) {
    if (gradient != 0) {
      expected.add(copy, 1, "frozen", {gradient, 0, 0, 0}, {Kind::gradient, Phase::pre_step});
    }
    expected.add(copy, 1, "frozen", {1, 1, 1, 1}, stepped);
    expected.add(copy, 1, "w", {copy == 0 ? 2 : 2.0001F}, stepped);
  }
  const StepReader evidence = expected.write();
  return judge_one(equal_reference(Kind::parameter, Phase::post_step), files.write(), &evidence)
      .verdict;
}

TEST(Equality, OfParametersThatNobodyTrainsIsExact) {
  EXPECT_EQ(judged_frozen(1), Verdict::holds);
  EXPECT_EQ(judged_frozen(1 + 3 * 0x1p-23F), Verdict::violated);
}

// Rounding cancelled the reference's step, but not that of ranks whose sums were rounded
// differently.
TEST(Equality, OfParametersWhoseStepsAreRoundedAwayIsUpToRoundings) {
  EXPECT_EQ(judged_frozen(1, 1e-9F), Verdict::holds);
  EXPECT_EQ(judged_frozen(1 + 3 * 0x1p-23F, 1e-9F), Verdict::holds);
  EXPECT_EQ(judged_frozen(1 + 300 * 0x1p-23F, 1e-9F), Verdict::violated);
}

/// Two ranks and a reference of [3, 2]: 1 2 / 3 4 / 5 6.
struct Sharded : Pair {
  Sharded() : Pair(2) {
    Observation& whole = expected.add(0, 1, "w", {1, 2, 3, 4, 5, 6});
    expected.reshape(whole, {3, 2});
  }

  void add(int rank, const std::vector<float>& values, std::int64_t row, std::int64_t rows) {
    files.add_shard(rank, 1, "w", values, {3, 2}, {row, 0}, {rows, 2});
  }
};

TEST(Equality, OfShardsHoldsWhereTheyAreTheReferenceTogether) {
  Sharded pair;
  pair.add(0, {1, 2, 3, 4}, 0, 2);
  pair.add(1, {5, 6}, 2, 1);
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::holds) << result.reason;
  EXPECT_EQ(result.comparisons, 2);
}

TEST(Equality, OfAShardIsWithTheRowsWhereItLies) {
  Sharded pair;
  pair.add(0, {1, 2, 3, 4}, 0, 2);
  pair.add(1, {5, 7}, 2, 1);
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("w on rank 1: relative difference"));
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("element [2, 1] is 7 on rank 1 and 6 in the reference"));
}

TEST(Equality, OfShardsOfColumnsIsElementByElement) {
  Sharded pair;
  pair.files.add_shard(0, 1, "w", {1, 3, 5}, {3, 2}, {0, 0}, {3, 1});
  pair.files.add_shard(1, 1, "w", {2, 9, 6}, {3, 2}, {0, 1}, {3, 1});
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("element [1, 1] is 9 on rank 1"));
}

TEST(Equality, OfPiecesOfAFlattenedTensorIsElementByElement) {
  Sharded right;
  right.files.add_shard(0, 1, "w", {1, 2, 3}, {6}, {0}, {3});
  right.files.add_shard(1, 1, "w", {4, 5, 6}, {6}, {3}, {3});
  EXPECT_EQ(right.judged().verdict, Verdict::holds);
  Sharded wrong;
  wrong.files.add_shard(0, 1, "w", {1, 2, 3}, {6}, {0}, {3});
  wrong.files.add_shard(1, 1, "w", {4, 8, 6}, {6}, {3}, {3});
  const ClaimResult result = wrong.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("element [2, 0] is 8 on rank 1"));
}

TEST(Equality, OfShardsThatLeaveElementsOutIsUndecided) {
  Sharded pair;
  pair.add(0, {1, 2}, 0, 1);
  pair.add(1, {5, 6}, 2, 1);
  const ClaimResult result = pair.judged();
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, "2 elements of w in step 1, from [1, 0] on, are in no rank's shard");
}

TEST(Equality, OfShardsThatLeaveTheEndOutIsUndecided) {
  Sharded pair;
  pair.add(0, {1, 2}, 0, 1);
  pair.add(1, {3, 4}, 1, 1);
  EXPECT_EQ(pair.judged().reason,
            "2 elements of w in step 1, from [2, 0] on, are in no rank's shard");
}

TEST(Equality, OfShardsNeedsNothingOfARankThatHoldsNone) {
  Sharded pair;
  pair.add(0, {1, 2, 3, 4, 5, 6}, 0, 3);
  EXPECT_EQ(pair.judged().verdict, Verdict::holds);
}

TEST(Equality, OfShardsAddsUpWhatIsOffInEach) {
  constexpr int kRanks = 128;
  const auto tolerance = static_cast<float>(rounding_tolerance(std::ldexp(1, -24), kRanks));
  const float off = 1 + 12 * tolerance;
  Pair pair(kRanks);
  pair.expected.add(0, 1, "w", std::vector<float>(kRanks, 1));
  for (int rank = 0; rank < kRanks; ++rank) {
    pair.files.add_shard(rank, 1, "w", {off}, {kRanks}, {rank}, {1});
  }
  EXPECT_EQ(pair.judged().verdict, Verdict::violated);
}

/// A single shard may move along a direction; only the sum counts.
TEST(Equality, OfShardsTakesBackWhatAnotherShardIsOffTheOtherWay) {
  LiteralEvidence files(2);
  LiteralEvidence expected(2);
  files.add_shard(0, 1, "w", {1.9F}, {2}, {0}, {1});
  files.add_shard(1, 1, "w", {0.1F}, {2}, {1}, {1});
  expected.add(0, 1, "w", {1, 1});
  expected.add(1, 1, "w", {1.9F, 0.1F});
  const StepReader evidence = expected.write();
  EXPECT_EQ(judge_one(kEqual, files.write(), &evidence).verdict, Verdict::holds);
}

TEST(Equality, OfCopiesOfAShardCountsOne) {
  const auto tolerance = static_cast<float>(rounding_tolerance(std::ldexp(1, -24), 4));
  Pair pair(4);
  pair.expected.add(0, 1, "w", {1, 1});
  for (int rank = 0; rank < 4; ++rank) {
    pair.files.add_shard(rank, 1, "w", {1 + 0.8F * tolerance}, {2}, {rank % 2}, {1}).replica_group =
        "";
  }
  EXPECT_EQ(pair.judged().verdict, Verdict::holds);
}

TEST(Equality, OfCopiesNeedsEveryRank) {
  Pair groups(3);
  groups.expected.add(0, 1, "w", {1});
  for (int rank = 0; rank < 2; ++rank) groups.files.add(rank, 1, "w", {1}).replica_group = "a";
  EXPECT_EQ(groups.judged().reason, "w in step 1 was not observed on rank 2");

  Pair halves(4);
  halves.expected.add(0, 1, "w", {1, 2});
  for (int rank = 0; rank < 3; ++rank) {
    halves.files
        .add_shard(rank, 1, "w", {1.0F + static_cast<float>(rank % 2)}, {2}, {rank % 2}, {1})
        .replica_group = "";
  }
  EXPECT_EQ(halves.judged().reason, "w in step 1 was not observed on rank 3");
}

TEST(Equality, OfAShardBesideAWholeTensorIsWithBoth) {
  Pair pair(2);
  pair.expected.add(0, 1, "w", {1, 2});
  pair.files.add(0, 1, "w", {1, 2});
  pair.files.add_shard(1, 1, "w", {1}, {2}, {0}, {1});
  EXPECT_EQ(pair.judged().verdict, Verdict::holds);
}

TEST(Equality, OfAShardOutsideOfTheTensorIsRefused) {
  for (const std::int64_t offset : {std::int64_t{1}, std::int64_t{1} << 40, INT64_MAX}) {
    Pair pair(1);
    pair.expected.add(0, 1, "w", {1, 2});
    pair.files.add_shard(0, 1, "w", {1, 2}, {2}, {0}, {2}).offset = {offset};
    try {
      pair.judged();
      FAIL() << "an offset of " << offset << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("a part that lies in the global shape"));
    }
  }
}

TEST(Equality, OfAShardBesideAPartOfTheTensorIsUndecided) {
  Pair pair(1);
  pair.expected.add_shard(0, 1, "w", {1, 2}, {4}, {0}, {2}).replica_group = "";
  pair.files.add_shard(0, 1, "w", {9, 9}, {4}, {2}, {2});
  EXPECT_EQ(pair.judged().verdict, Verdict::undecided);
}

TEST(Equality, OfAShardOfAnotherTensorIsViolated) {
  Sharded pair;
  pair.add(0, {1, 2, 3, 4}, 0, 2);
  pair.files.add_shard(1, 1, "w", {5, 6}, {4, 2}, {2, 0}, {1, 2});
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("has the shape [4, 2] on rank 1 but has the shape [3, 2]"));
}

TEST(Equality, OfAShardWithoutAValueIsViolated) {
  Sharded pair;
  pair.add(0, {1, 2, 3, 4}, 0, 2);
  pair.files.add_undefined(1, 1, "w");
  EXPECT_EQ(pair.judged().verdict, Verdict::violated);
}

}  // namespace
}  // namespace lockstep
