#include "harness/judge/values/distinctness.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

constexpr LiteralEvidence::Tensor kState{Kind::random_state, Phase::post_step, 0};
constexpr LiteralEvidence::Tensor kData{Kind::data, Phase::pre_forward, 0};
const Claim kStatesDiffer = differ_across_ranks(Kind::random_state, Phase::post_step);

using ValuesOfRanks = std::vector<std::vector<float>>;  // by rank

/// A generator's states in steps from 1 on.
ClaimResult judged(const std::vector<ValuesOfRanks>& steps) {
  LiteralEvidence files(static_cast<int>(steps.front().size()));
  std::int64_t number = 0;
  for (const ValuesOfRanks& ranks : steps) {
    ++number;
    int rank = 0;
    for (const std::vector<float>& state : ranks)
      files.add(rank++, number, "loader", state, kState);
  }
  return judge_one(kStatesDiffer, files.write());
}

TEST(Distinctness, HoldsWhereEachRankHasItsOwn) {
  const ClaimResult result = judged({{{1, 2}, {1, 3}, {2, 1}}, {{5, 5}, {6, 6}, {7, 7}}});
  EXPECT_EQ(result.verdict, Verdict::holds) << result.reason;
  EXPECT_EQ(result.comparisons, 2);
}

TEST(Distinctness, IsViolatedByTwoOfThreeRanksFromTheirFirstStepOn) {
  const ClaimResult result =
      judged({{{1}, {2}, {3}}, {{4}, {5}, {5}}, {{6}, {7}, {7}}, {{8}, {9}, {10}}});
  ASSERT_EQ(result.verdict, Verdict::violated);
  const Finding& finding = result.findings.at(0);
  EXPECT_EQ(finding.kind, FindingKind::same_values);
  EXPECT_EQ(finding.step, 2);
  EXPECT_EQ(finding.last_step, 3);
  EXPECT_EQ(finding.places, 2);
  EXPECT_EQ(finding.groups, (std::vector<std::vector<int>>{{1, 2}}));
  EXPECT_EQ(finding.sentence,
            "random states do not differ across ranks: first in step 2, loader: ranks 1,2 hold the "
            "same.");
}

TEST(Distinctness, NamesThePartOfTheTensorsThatIsTheSame) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "noise", {static_cast<float>(rank)}, kState);
    files.add(rank, 1, "dropout.0", {1}, kState);
    files.add(rank, 1, "dropout.1", {2}, kState);
  }
  const ClaimResult result = judge_one(kStatesDiffer, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].tensors, (std::vector<std::string>{"dropout.0", "dropout.1"}));
  EXPECT_EQ(result.findings[0].compared, 3);
  EXPECT_EQ(result.findings[0].sentence,
            "random states do not differ across ranks: first in step 1, dropout.0: ranks 0,1 hold "
            "the same. In that step 2 of 3, all dropout.* are the same.");
}

TEST(Distinctness, OfSamplesHasAKindOfItsOwn) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "samples", {4, 7}, kData);
  const ClaimResult result =
      judge_one(differ_across_ranks(Kind::data, Phase::pre_forward), files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings[0].kind, FindingKind::same_samples);
}

/// Their digests depend on their places, so other digests do not show other values.
TEST(Distinctness, IsOpenOfShards) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add_shard(rank, 1, "w", {4, 7}, {4}, {2 * rank}, {2});
  }
  const ClaimResult result =
      judge_one(differ_across_ranks(Kind::gradient, Phase::pre_step), files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
}

TEST(Distinctness, ComparesNoOtherTypeAndNoOtherMicroBatch) {
  LiteralEvidence files(2);
  files.add(0, 1, "loader", {0}, kState);
  files.add(1, 1, "loader", {0}, kState).dtype = "int32";
  files.add(0, 2, "loader", {1}, {Kind::random_state, Phase::post_step, 0});
  files.add(1, 2, "loader", {2}, {Kind::random_state, Phase::post_step, 0});
  files.add(1, 2, "loader", {1}, {Kind::random_state, Phase::post_step, 1});
  const ClaimResult result = judge_one(kStatesDiffer, files.write());
  EXPECT_EQ(result.verdict, Verdict::holds) << result.reason;
  EXPECT_EQ(result.comparisons, 2);
}

TEST(Distinctness, IsOpenWhereNoTwoRanksCanBeCompared) {
  LiteralEvidence files(2);
  files.add(0, 1, "loader", {1}, kState);
  files.add(1, 1, "loader", {1}, kState).not_comparable = "too large";
  const ClaimResult result = judge_one(kStatesDiffer, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_NE(result.reason, "");
}

}  // namespace
}  // namespace lockstep
