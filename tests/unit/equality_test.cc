#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// `ranks` ranks beside a reference.
struct Pair {
  explicit Pair(int ranks) : files(ranks), expected(1) {}

  ClaimResult judged() const {
    const Evidence reference = expected.write();
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
              HasSubstr("is int32 on rank 0 and is float32 in the reference"));
}

TEST(Equality, OfEqualBitsOfAnotherShapeIsViolated) {
  Pair pair(1);
  pair.expected.add(0, 1, "w", {1, 2});
  pair.files.add(0, 1, "w", {1, 2, 0});
  const ClaimResult result = pair.judged();
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("[3] on rank 0 and has the shape [2] in the reference"));
}

TEST(Equality, IsViolatedAboveTenTolerances) {
  Pair pair(1);
  const auto tolerance = static_cast<float>(reference_tolerance(std::ldexp(1, -24), 1, 1));
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

TEST(Equality, IsRelativeToAllTensorsOfTheStep) {
  Pair pair(1);
  for (LiteralEvidence* side : {&pair.files, &pair.expected}) side->add(0, 1, "a large", {1e4F});
  pair.expected.add(0, 1, "small", {0.1F});
  pair.files.add(0, 1, "small", {0.101F});
  EXPECT_EQ(pair.judged().verdict, Verdict::holds);
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
  EXPECT_THAT(result.reason, HasSubstr("w in step 1 was not observed on every rank"));
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
  pair.expected.add(0, 1, "v", {1, 5}, {Kind::gradient, Point::backward, 0}).replica_group =
      own_gradient_group(0);
  pair.expected.add(0, 2, "w", {1, 5}, {Kind::gradient, Point::backward, 0}).replica_group =
      own_gradient_group(0);
  pair.expected.add(0, 1, "w", {2, 3});
  pair.files.add(0, 1, "w", {1, 5});
  EXPECT_THAT(pair.judged().findings.at(0).sentence, Not(HasSubstr("own gradient")));
}

TEST(Equality, NamesTheRankWhoseGradientItIs) {
  Pair pair(2);
  pair.expected.add(0, 1, "w", {1, 5}, {Kind::gradient, Point::backward, 0}).replica_group =
      own_gradient_group(0);
  pair.expected.add(0, 1, "w", {2, 3});
  pair.files.add(0, 1, "w", {2, 3});
  pair.files.add(1, 1, "w", {1, 5});
  EXPECT_THAT(pair.judged().findings.at(0).sentence, HasSubstr("it is rank 0's own gradient"));
}

/// Rank 0 is off in step 2 by 0.5; rank 1 in step 1 by 9 and in step 2 by 0.25.
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

TEST(ReferenceTolerance, GrowsWithRanksAndStepsToALimit) {
  const double one = reference_tolerance(0x1p-24, 1, 1);
  EXPECT_EQ(one, 0x1p-23);
  EXPECT_EQ(reference_tolerance(0x1p-24, 4, 1), 4 * one);
  EXPECT_EQ(reference_tolerance(0x1p-24, 4, 3), 12 * one);
  EXPECT_EQ(reference_tolerance(0x1p-8, 4, 100), 0.05);
}

}  // namespace
}  // namespace lockstep
