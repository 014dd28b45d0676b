#include "harness/verdict/broken_ties.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

JobRecord untied(std::vector<int> ranks) {
  JobRecord job;
  job.world_size = 2;
  job.broken_ties = {{2, std::move(ranks), {"embedding.weight", "head.weight"}}};
  return job;
}

TEST(BrokenTies, AreFindingsWhereAllRanksHaveThem) {
  const auto found = broken_ties(untied({0, 1}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->symptom.kind, SymptomKind::agree_but_wrong);
  EXPECT_EQ(found->symptom.text,
            "a tie broke: embedding.weight and head.weight were one parameter, and differ in "
            "step 2");
  ASSERT_EQ(found->violated.findings.size(), 1);
  const Finding& finding = found->violated.findings[0];
  EXPECT_EQ(finding.kind, FindingKind::tie_broken);
  EXPECT_EQ(finding.step, 2);
  EXPECT_EQ(finding.groups, (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(finding.sentence,
            "modules once shared one parameter, and train 2: embedding.weight and head.weight; "
            "their values differ.");
}

/// Then ranks differ, which is told by itself, or files of some are missing.
TEST(BrokenTies, AreNoneOnSomeRanks) {
  EXPECT_FALSE(broken_ties(untied({1})));
  EXPECT_FALSE(broken_ties(JobRecord()));
}

}  // namespace
}  // namespace lockstep
