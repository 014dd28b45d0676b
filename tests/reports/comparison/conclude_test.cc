#include "reports/comparison/conclude.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/comparison/comparison_words.h"
#include "reports/formats/renderer.h"
#include "tests/reports/comparison/literal_comparisons.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

TEST(Conclusion, HasAFindingForEachKind) {
  ComparedPair pair = literal_pair(Likeness::different);
  EXPECT_EQ(pair.result.verdict, Verdict::violated);
  const Finding& found = pair.result.findings.at(0);
  EXPECT_EQ(found.claim, equal_reference(Kind::gradient, Phase::pre_step));
  EXPECT_EQ(found.kind, FindingKind::scaled_by_world_size);
  EXPECT_THAT(found.groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(found.sentence, StartsWith("DIFFERENT"));
  EXPECT_EQ(found.step, 2);
  pair.steps[1].tensors.push_back(literal_tensor(Likeness::different));
  pair.steps[1].tensors.back().kind = FindingKind::sign_flipped;
  pair.result = {};
  conclude(pair);
  EXPECT_EQ(pair.result.findings.size(), 2U);
}

TEST(Conclusion, SaysWhyItIsUndecided) {
  const ComparedPair pair = literal_pair(Likeness::undecided);
  EXPECT_EQ(pair.result.verdict, Verdict::undecided);
  EXPECT_EQ(pair.result.reason, verdict_in_words(pair));
  EXPECT_TRUE(pair.result.findings.empty());
}

/// A pair of many steps that are equal up to rounding, but for `odd`, which is as `likeness` says.
ComparedPair long_pair(std::int64_t count, std::int64_t odd, Likeness likeness) {
  ComparedPair pair = literal_pair(Likeness::equal);
  pair.result = {};
  pair.steps.clear();
  for (std::int64_t step = 1; step <= count; ++step) {
    // Their states change so often that a chart cannot show all changes.
    const Likeness usual = step % 2 == 0 ? Likeness::equal : Likeness::rounding;
    pair.steps.push_back({step, step, 1e-6, "", {literal_tensor(step == odd ? likeness : usual)}});
    pair.steps.back().leave_out_tensors();
    if (step == odd) pair.steps.back().tensors = {literal_tensor(likeness)};
  }
  conclude(pair);
  return pair;
}

/// The verdict and its sentence do not depend on the steps that were left out.
TEST(Conclusion, KeepsTheStepsThatDecideOfALongTraining) {
  for (const std::int64_t odd : {1, 2, 1001, 7777, 9999, 10000}) {
    for (const Likeness likeness : {Likeness::different, Likeness::undecided}) {
      const ComparedPair pair = long_pair(10000, odd, likeness);
      EXPECT_LE(pair.steps.size(), 2010U);
      EXPECT_EQ(steps_compared(pair), 10000);
      EXPECT_EQ(count(pair, likeness), 1);
      EXPECT_EQ(verdict_of(pair), pair.result.verdict);
      if (likeness == Likeness::different) {
        ASSERT_NE(first_different(pair), nullptr);
        EXPECT_EQ(first_different(pair)->step, odd);
        EXPECT_EQ(pair.result.findings.at(0).sentence, verdict_in_words(pair));
      } else {
        EXPECT_EQ(pair.result.reason, verdict_in_words(pair));
      }
    }
  }
  ComparedPair same = long_pair(10000, 3, Likeness::rounding);
  EXPECT_EQ(verdict_in_words(same), "equal up to rounding in 10000 steps, 1 to 10000");
  same.hyperparameters = {"lr is 0.001 in A and 0.002 in B"};
  EXPECT_EQ(verdict_of(same), Verdict::undecided);
}

/// A repetition has no findings, and keeps the counts of all steps.
TEST(Conclusion, OfARepetitionReplacesThatOfAReference) {
  ComparedPair pair = long_pair(10000, 4, Likeness::different);
  ASSERT_FALSE(pair.result.findings.empty());
  conclude_repetition(pair);
  EXPECT_EQ(pair.result.verdict, Verdict::undecided);
  EXPECT_TRUE(pair.result.findings.empty());
  EXPECT_EQ(steps_compared(pair), 10000);
  Comparison repetition;
  repetition.purpose = ComparisonPurpose::repetition;
  repetition.pairs = {pair};
  EXPECT_EQ(render_keys(run_with(repetition)), "");
  EXPECT_THAT(render_html(run_with(repetition)), testing::HasSubstr("Of 10000 compared steps, "));
}

}  // namespace
}  // namespace lockstep
