// Ranks that are an optimizer step behind others, by gradients that they have later.

#include "harness/verdict/step_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

/// The finding that gradients of step 3 differ between these groups.
std::vector<ClaimResult> differing(const std::vector<std::vector<int>>& groups) {
  Finding finding;
  finding.claim = agree_across_ranks(Kind::gradient, Phase::pre_step);
  finding.step = 3;
  finding.groups = groups;
  ClaimResult result;
  result.claim = finding.claim;
  result.verdict = Verdict::violated;
  result.findings = {finding};
  return {result};
}

/// Ranks whose gradient of each step is the number of a pass, by rank and step.
std::optional<StepBehind> behind(const std::vector<std::vector<float>>& passes,
                                 const std::vector<std::vector<int>>& groups) {
  LiteralEvidence files(static_cast<int>(passes.size()));
  for (std::size_t rank = 0; rank < passes.size(); ++rank) {
    for (std::size_t i = 0; i < passes[rank].size(); ++i) {
      files.add(static_cast<int>(rank), static_cast<std::int64_t>(i) + 1, "w", {passes[rank][i]});
      files.add(static_cast<int>(rank), static_cast<std::int64_t>(i) + 1, "b",
                {2 * passes[rank][i]});
    }
  }
  return step_behind(files.write(), differing(groups));
}

TEST(StepBehind, IsToldByTheGradientsOfALaterStep) {
  const auto one = behind({{1, 2, 3, 4, 5}, {1, 2, 4, 5}}, {{0}, {1}});
  ASSERT_TRUE(one);
  EXPECT_EQ(in_words(*one),
            "rank 1 is an optimizer step behind: its gradients of step 3 are those of step 4 on "
            "rank 0");
  const auto two = behind({{1, 2, 5, 6}, {1, 2, 3, 4, 5, 6}, {1, 2, 5, 6}}, {{0, 2}, {1}});
  ASSERT_TRUE(two);
  EXPECT_EQ(in_words(*two),
            "ranks 0,2 are 2 optimizer steps behind: their gradients of step 3 are those of step 5 "
            "on rank 1");
}

TEST(StepBehind, IsNoCauseOfOtherDifferences) {
  EXPECT_FALSE(behind({{1, 2, 3, 4, 5}, {1, 2, 7, 8, 9}}, {{0}, {1}}));
  EXPECT_FALSE(behind({{1, 2, 0, 0, 0}, {1, 2, 3, 0, 0}}, {{0}, {1}})) << "zeros tell nothing";
  EXPECT_FALSE(behind({{1, 2, 3, 4}, {1, 2, 4, 5}, {1, 2, 9, 9}}, {{0}, {1}, {2}}));
  EXPECT_FALSE(behind({{1, 2, 3}, {1, 2, 4}}, {{0}, {1}})) << "there is no later step";
  LiteralEvidence none(2);
  EXPECT_FALSE(step_behind(none.write(), {}));
}

}  // namespace
}  // namespace lockstep
