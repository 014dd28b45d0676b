#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/verdict/cost.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Claim kBound = at_most_reference(Kind::memory, Phase::post_backward);

constexpr LiteralEvidence::Tensor kMemory{Kind::memory, Phase::post_backward, 0};

/// Memory of two ranks in each step, compared with a reference; all these steps are judged.
ClaimResult judged(const std::vector<std::vector<std::int64_t>>& ranks,
                   const std::vector<std::int64_t>& reference) {
  LiteralEvidence files(static_cast<int>(ranks.size()));
  LiteralEvidence expected(1);
  for (std::size_t step = 0; step < reference.size(); ++step) {
    const auto number = static_cast<std::int64_t>(step) + 1;
    expected.add_whole(0, number, "activations", reference[step], kMemory);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (step >= ranks[rank].size()) continue;
      files.add_whole(static_cast<int>(rank), number, "activations", ranks[rank][step], kMemory);
    }
  }
  const StepReader evidence = files.write();
  const StepReader reference_evidence = expected.write();
  return judge_one(kBound, evidence, &reference_evidence);
}

Verdict verdict_of(std::int64_t bytes, std::int64_t reference) {
  return judged({{bytes}}, {reference}).verdict;
}

TEST(MemoryLimit, HoldsUpToATenthAboveAndIsViolatedBeyondTwice) {
  EXPECT_EQ(verdict_of(0, 1000), Verdict::holds);
  EXPECT_EQ(verdict_of(1000, 1000), Verdict::holds);
  EXPECT_EQ(verdict_of(1100, 1000), Verdict::holds);
  EXPECT_EQ(verdict_of(1101, 1000), Verdict::undecided);
  EXPECT_EQ(verdict_of(2000, 1000), Verdict::undecided);
  EXPECT_EQ(verdict_of(2001, 1000), Verdict::violated);
}

TEST(MemoryLimit, CountsItsMarginInTenthsAndNeverBelowZero) {
  EXPECT_EQ(judged({{1100}}, {1000}).margin, 1);
  EXPECT_EQ(judged({{10}}, {1000}).margin, 0);
  EXPECT_EQ(judged({{1050, 3000, 10}}, {1000, 1000, 1000}).margin, 20);
  EXPECT_EQ(judged({{1100}}, {1000}).tolerance, 0.1);
}

TEST(MemoryLimit, NamesTheFirstPlaceWithBothNumbers) {
  const ClaimResult result = judged({{1000, 1000, 9000}, {1000, 3100, 1000}}, {1000, 1000, 1000});
  ASSERT_EQ(result.findings.size(), 1U);
  const Finding& finding = result.findings[0];
  EXPECT_EQ(finding.sentence,
            "memory exceeds the reference's: first in step 2, activations on rank 1: 3100 bytes, "
            "3.1 times the reference's 1000.");
  EXPECT_EQ(finding.places, 2);
  EXPECT_EQ(finding.last_step, 3);
  EXPECT_EQ(result.comparisons, 6);
  EXPECT_EQ(result.reason, "");
}

TEST(MemoryLimit, SaysWhyItIsOpenBetweenTheTwo) {
  EXPECT_THAT(judged({{1500}}, {1000}).reason, HasSubstr("up to 1.5 times"));
}

TEST(MemoryLimit, IsOpenWithoutAReference) {
  LiteralEvidence files(1);
  files.add_whole(0, 1, "activations", 10, kMemory);
  EXPECT_EQ(judge_one(kBound, files.write()).verdict, Verdict::undecided);
}

TEST(MemoryLimit, IsOpenWhereNothingWasObserved) {
  const LiteralEvidence files(1);
  const StepReader evidence = files.write();
  EXPECT_EQ(judge_one(kBound, evidence, &evidence).verdict, Verdict::undecided);
  EXPECT_EQ(judged({{}}, {1000}).verdict, Verdict::undecided);
}

TEST(MemoryLimit, IsOpenWhereARankOrAStepWasNotObserved) {
  const ClaimResult rank = judged({{1000}, {}}, {1000});
  EXPECT_EQ(rank.verdict, Verdict::undecided);
  EXPECT_EQ(rank.reason, "activations in step 1 was not observed on rank 1");
  const ClaimResult step = judged({{1000}}, {1000, 1000});
  EXPECT_EQ(step.verdict, Verdict::undecided);
  EXPECT_EQ(step.reason, "activations in step 2 was not observed on rank 0");
}

TEST(MemoryLimit, ThatIsBrokenStaysSoWhateverElseIsMissing) {
  EXPECT_EQ(judged({{9000}, {}}, {1000}).verdict, Verdict::violated);
}

TEST(MemoryLimit, OfAReferenceOfZeroIsOpen) {
  for (const std::int64_t bytes : {0, 1, 1000}) {
    const ClaimResult result = judged({{bytes}}, {0});
    EXPECT_EQ(result.verdict, Verdict::undecided) << bytes;
    EXPECT_THAT(result.reason, HasSubstr("0 bytes in the reference"));
  }
  EXPECT_EQ(judged({{1000, 5}}, {1000, 0}).verdict, Verdict::undecided);
}

TEST(MemoryLimit, OfAnotherNameThanTheReferencesIsOpen) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  files.add_whole(0, 1, "activations", 10, kMemory);
  expected.add_whole(0, 1, "parameters", 10, kMemory);
  const StepReader reference = expected.write();
  EXPECT_EQ(judge_one(kBound, files.write(), &reference).verdict, Verdict::undecided);
}

TEST(MemoryLimit, LooksAtTheKindAndPointOfTheClaimOnly) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  for (LiteralEvidence* both : {&files, &expected}) {
    both->add_whole(0, 1, "activations", 10, kMemory);
  }
  files.add_whole(0, 1, "count", 9000, {Kind::buffer, Phase::post_backward, 0});
  files.add_whole(0, 1, "activations", 9000, {Kind::memory, Phase::post_step, 0});
  const StepReader reference = expected.write();
  EXPECT_EQ(judge_one(kBound, files.write(), &reference).verdict, Verdict::holds);
}

TEST(MemoryLimit, AllowsWhatTheLargestMicroBatchOfTheReferenceNeeds) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  files.add_whole(0, 1, "activations", 3000, kMemory);
  LiteralEvidence::Tensor memory = kMemory;
  for (const std::int64_t bytes : {1000, 3000, 1000}) {
    expected.add_whole(0, 1, "activations", bytes, memory);
    ++memory.micro_batch;
  }
  const StepReader reference = expected.write();
  EXPECT_EQ(judge_one(kBound, files.write(), &reference).verdict, Verdict::holds);
}

TEST(MemoryLimit, OfWhatIsNoNumberOfBytesIsOpen) {
  LiteralEvidence expected(1);
  expected.add_whole(0, 1, "activations", 10, kMemory);
  const StepReader reference = expected.write();
  const auto expect_open = [&](LiteralEvidence& files) {
    const ClaimResult result = judge_one(kBound, files.write(), &reference);
    EXPECT_EQ(result.verdict, Verdict::undecided);
    EXPECT_THAT(result.reason, HasSubstr("is not a number of bytes on rank 0"));
  };
  LiteralEvidence fraction(1);
  fraction.add(0, 1, "activations", {10}, kMemory);
  expect_open(fraction);
  LiteralEvidence negative(1);
  negative.add_whole(0, 1, "activations", -10, kMemory);
  expect_open(negative);
  LiteralEvidence lost(1);
  lost.add_whole(0, 1, "activations", 10, kMemory);
  lost.lose_values(0, 1);
  expect_open(lost);
}

TEST(Memory, IsJudgedByNoOtherPredicate) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add_whole(rank, 1, "activations", 10, kMemory);
  const StepReader evidence = files.write();
  for (const Claim& claim : {agree_across_ranks(Kind::memory, Phase::post_backward),
                             equal_reference(Kind::memory, Phase::post_backward)}) {
    const ClaimResult result = judge_one(claim, evidence, &evidence);
    EXPECT_EQ(result.verdict, Verdict::undecided) << sentence(claim);
    EXPECT_THAT(result.reason, HasSubstr("cannot be judged"));
  }
  EXPECT_EQ(judge_one(kBound, evidence, &evidence).verdict, Verdict::holds);
}

TEST(Memory, IsTheOnlyKindThatIsBounded) {
  LiteralEvidence files(1);
  files.add_whole(0, 1, "count", 10, {Kind::buffer, Phase::post_backward, 0});
  const StepReader evidence = files.write();
  const Claim claim = at_most_reference(Kind::buffer, Phase::post_backward);
  EXPECT_EQ(judge_one(claim, evidence, &evidence).verdict, Verdict::undecided);
}

TEST(Memory, IsNoDamageThatAnErrorComesAfter) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  files.add_whole(0, 1, "activations", 9000, kMemory);
  expected.add_whole(0, 1, "activations", 1000, kMemory);
  const StepReader evidence = files.write();
  const StepReader reference = expected.write();
  CellEvidence cell;
  cell.world_size = 1;
  cell.claims = {kBound, ranks_finish()};
  cell.evidence = &evidence;
  cell.reference = &reference;
  cell.exits = {exit_of(0, ExitKind::raised, 0, "the genuine reason")};
  const std::vector<ClaimResult> results = judge(cell);
  EXPECT_EQ(results[0].verdict, Verdict::violated);
  EXPECT_EQ(results[1].findings.at(0).failure->lag, std::nullopt);
}

TEST(Memory, OfACellIsTheMostOfAnyRankAndStep) {
  LiteralEvidence files(2);
  files.add_whole(0, 1, "activations", 10, kMemory);
  files.add_whole(1, 2, "activations", 30, kMemory);
  files.add_whole(0, 3, "activations", 20, kMemory);
  files.add_whole(0, 3, "count", 99, {Kind::buffer, Phase::post_backward, 0});
  const StepReader evidence = files.write();
  MemoryPeak peak(evidence);
  fold_steps(evidence, {peak});
  EXPECT_EQ(peak.bytes(), 30);
  const LiteralEvidence none(2);
  const StepReader nothing = none.write();
  EXPECT_FALSE(MemoryPeak(nothing).wants(1));
  EXPECT_EQ(MemoryPeak(nothing).bytes(), std::nullopt);
}

}  // namespace
}  // namespace lockstep
