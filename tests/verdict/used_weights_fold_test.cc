// Forward passes that compute with other weights than the optimizer holds: what is said of them.

#include "harness/verdict/used_weights_fold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A job of one rank, whose weights are single numbers.
class JobOfWeights {
 public:
  void compute(std::int64_t step, const std::string& name, float used, float held) {
    files_.add(0, step, name, {used}, {Kind::used_weight, Phase::pre_forward, 0});
    files_.add(0, step, name, {held}, {Kind::held_weight, Phase::pre_forward, 0});
  }

  std::optional<JudgedWeights> judged() const {
    const StepReader evidence = files_.write();
    CellEvidence cell;
    cell.world_size = 1;
    cell.is_job = true;
    cell.evidence = &evidence;
    UsedWeightsFold fold(cell);
    fold_steps(evidence, {fold});
    return fold.judged();
  }

 private:
  LiteralEvidence files_{1};
};

TEST(UsedWeightsFold, HoldsIfAllAreTheHeldOnes) {
  JobOfWeights job;
  for (const std::int64_t step : {2, 3}) {
    job.compute(step, "a", 1, 1);
    job.compute(step, "b", static_cast<float>(step), static_cast<float>(step));
  }
  const auto judged = job.judged();
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->result.verdict, Verdict::holds);
  EXPECT_EQ(judged->result.comparisons, 4);
  EXPECT_TRUE(judged->result.findings.empty());
  EXPECT_EQ(judged->note,
            "up to 2 weights of forward passes were compared with what the optimizer holds, in 2 "
            "steps");
}

TEST(UsedWeightsFold, SaysFromWhichStepOnAndWhoseWeightsTheyAre) {
  JobOfWeights job;
  job.compute(2, "a", 1, 1);
  job.compute(2, "b", 1, 1);
  job.compute(3, "a", 1, 2);
  job.compute(3, "b", 7, 7);
  job.compute(5, "a", 2, 3);
  job.compute(5, "b", 7, 8);
  const auto judged = job.judged();
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->result.verdict, Verdict::violated);
  ASSERT_EQ(judged->result.findings.size(), 1U);
  const Finding& finding = judged->result.findings[0];
  EXPECT_EQ(finding.kind, FindingKind::other_weights_used);
  EXPECT_EQ(finding.step, 3);
  EXPECT_EQ(finding.last_step, 5);
  EXPECT_EQ(finding.places, 3);
  EXPECT_THAT(finding.tensors, ElementsAre("a"));
  EXPECT_EQ(finding.compared, 2);
  EXPECT_EQ(finding.sentence,
            "the weights of a that modules had on rank 0 are not those of the optimizer. In step 3 "
            "they are those of step 2: gathered before the optimizer's step, and not again.");
  EXPECT_EQ(
      judged->symptom.text,
      "forward passes computed with other weights than the optimizer holds (1 of 2, from step "
      "3). Cause: they were gathered before the optimizer's step, and not again");
}

TEST(UsedWeightsFold, NamesNoCauseOfWeightsThatNoneHadHeld) {
  JobOfWeights job;
  job.compute(2, "a", 1, 1);
  job.compute(3, "a", 5, 2);
  const auto judged = job.judged();
  ASSERT_TRUE(judged && judged->result.findings.size() == 1);
  EXPECT_THAT(judged->result.findings[0].sentence, Not(HasSubstr("In step")));
  EXPECT_THAT(judged->symptom.text, Not(HasSubstr("Cause")));
}

TEST(UsedWeightsFold, SaysNothingWithoutWeights) { EXPECT_FALSE(JobOfWeights().judged()); }

}  // namespace
}  // namespace lockstep
