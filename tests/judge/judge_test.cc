
#include "harness/judge/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/compare/bound.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "reports/base/error.h"
#include "tests/judge/literal_evidence.h"
#include "tests/verdict/measured_table.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Agreement, HoldsForEqualBits) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) files.add(rank, 1, "w", {1, 2, 3});
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 1);
}

TEST(Agreement, WithoutObservationsIsUndecided) {
  LiteralEvidence files(2);
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("not triggered"));
}

TEST(Agreement, OfAnotherKindOrPointDoesNotCount) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {1}, {Kind::parameter, Phase::pre_step});
    files.add(rank, 1, "w", {2}, {Kind::gradient, Phase::post_backward});
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::undecided);
}

TEST(Agreement, NamesTheFirstPlaceTheGroupsAndTheElement) {
  LiteralEvidence files(4);
  for (int rank = 0; rank < 4; ++rank) {
    files.add(rank, 1, "a", {1, 2});
    files.add(rank, 1, "b", {1, 2});
    files.add(rank, 2, "a", {1, 2});
    files.add(rank, 2, "b", {1, rank == 2 ? 2.5F : 2.0F});
    files.add(rank, 3, "a", {rank == 0 ? 9.0F : 1.0F, 2});
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  const Finding& finding = result.findings.at(0);
  EXPECT_EQ(finding.step, 2);
  EXPECT_EQ(finding.tensor, "b");
  EXPECT_THAT(finding.groups, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(2)));
  ASSERT_TRUE(finding.first_difference);
  EXPECT_THAT(finding.first_difference->index, ElementsAre(1));
  EXPECT_EQ(finding.first_difference->left_value, 2.0);
  EXPECT_EQ(finding.first_difference->right_value, 2.5);
  EXPECT_EQ(finding.first_difference->left_bits, "0x40000000");
  EXPECT_EQ(finding.first_difference->ulp_distance, 0x200000U);
  EXPECT_EQ(finding.differing_elements, 1);
  EXPECT_EQ(finding.worst_difference, 0.5);
  EXPECT_EQ(finding.places, 2);
  EXPECT_EQ(finding.last_step, 3);
  EXPECT_EQ(finding.last_worst_difference, 8);
  EXPECT_THAT(finding.sentence, HasSubstr("ranks 0,1,3 agree; 2 differs"));
}

TEST(Agreement, TakesExecutionOrderNotTheAlphabet) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "z", {static_cast<float>(rank)});
    files.add(rank, 1, "a", {static_cast<float>(rank)});
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).findings.at(0).tensor, "z");
}

TEST(Agreement, TellsNegativeZeroFromZero) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {0.0F});
  files.add(1, 1, "w", {-0.0F});
  const ClaimResult result = judge_one(kAgree, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).worst_difference, 0);
  EXPECT_EQ(result.findings.at(0).differing_elements, 1);
}

TEST(Agreement, AcceptsTheSameNanEverywhere) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {std::numeric_limits<float>::quiet_NaN()});
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::holds);
}

TEST(Agreement, IsViolatedWhereOneRankHasNoValue) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  files.add_undefined(1, 1, "w");
  const ClaimResult result = judge_one(kAgree, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("(undefined) on rank 1"));
}

TEST(Agreement, WhereNoRankHasAValueNothingWasCompared) {
  LiteralEvidence files(2);
  files.add_undefined(0, 1, "w");
  files.add_undefined(1, 1, "w");
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.comparisons, 0);
}

TEST(Agreement, OfTensorsOfOtherShapesIsViolated) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1, 2});
  files.add(1, 1, "w", {1, 2, 0});  // the same words: only the shape distinguishes them
  const ClaimResult result = judge_one(kAgree, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("[2] on rank 0 but has the shape [3] on rank 1"));
}

TEST(Agreement, WhereARankStoppedLookingIsUndecided) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  files.add(1, 1, "w", {1});
  files.add(0, 2, "w", {1});
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("w in step 2 was not observed on rank 1"));
}

TEST(Agreement, NamesRanksThatNeverObservedAny) {
  LiteralEvidence files(4);
  for (const int rank : {0, 2}) files.add(rank, 1, "w", {1});
  EXPECT_EQ(judge_one(kAgree, files.write()).reason, "ranks 1,3 observed none of the gradients");
}

TEST(Agreement, IsFoundFromDigestAloneWhenValuesAreLost) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  files.add(1, 1, "w", {2});
  files.lose_values(1, 1);
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_FALSE(result.findings.at(0).first_difference);
}

TEST(Equality, HoldsWithinRounding) {
  LiteralEvidence files(2);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, 1});
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {1, std::nextafter(1.0F, 2.0F)});
  }
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 2);
  ASSERT_TRUE(result.margin);
  EXPECT_GT(*result.margin, 0);
  EXPECT_LT(*result.margin, 1);
}

TEST(Equality, BetweenRoundingAndFaultIsUndecided) {
  LiteralEvidence files(2);
  LiteralEvidence expected(1);
  const float scale = static_cast<float>(rounding_tolerance(std::ldexp(1, -24), 2)) * 5;
  expected.add(0, 1, "w", {1});
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {1 + scale});
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_NEAR(*result.margin, 5, 0.3);
}

TEST(Equality, WithoutAReferenceIsUndecided) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  EXPECT_EQ(judge_one(kEqual, files.write()).verdict, Verdict::undecided);
}

TEST(Equality, OfATensorThatTheReferenceDoesNotHaveIsUndecided) {
  LiteralEvidence files(2);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1});
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {1});
    files.add(rank, 1, "v", {1});
  }
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("the reference has no v"));
}

TEST(Equality, OfAReferenceThatDidNotFinishSaysThat) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1});
  for (const int step : {1, 2}) files.add(0, step, "w", {1});
  const StepReader evidence = files.write();
  const StepReader reference = expected.write();
  CellEvidence cell;
  cell.claims = {kEqual};
  cell.world_size = 1;
  cell.evidence = &evidence;
  cell.reference = &reference;
  cell.reference_exit = exit_of(0, ExitKind::unfinished, 0);
  cell.reference_exit->detail = "limit of 60 s";
  cell.reference_exit->cause = ExitCause::time_limit;
  EXPECT_EQ(judge(cell).front().reason,
            "the reference has no w in step 2: it did not finish within its limit of 60 s");
  cell.reference_exit = exit_of(0, ExitKind::finished, 0);
  EXPECT_EQ(judge(cell).front().reason, "the reference has no w in step 2");
}

/// Every rank holds `factor` times the reference.
ClaimResult judge_scaled(float factor, int ranks) {
  LiteralEvidence files(ranks);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, -2, 3});
  for (int rank = 0; rank < ranks; ++rank) {
    files.add(rank, 1, "w", {factor, -2 * factor, 3 * factor});
  }
  const StepReader reference = expected.write();
  return judge_one(kEqual, files.write(), &reference);
}

TEST(Equality, SaysTheRatioInWords) {
  const struct {
    float factor;
    int ranks;
    const char* words;
    FindingKind kind;
  } rows[] = {{0.5F, 2, "averaged twice", FindingKind::divided_by_world_size},
              {2.0F, 2, "never averaged", FindingKind::scaled_by_world_size},
              {4.0F, 4, "never averaged", FindingKind::scaled_by_world_size},
              {0.25F, 4, "averaged twice", FindingKind::divided_by_world_size},
              {1.25F, 2, "5/4 of the right value", FindingKind::scaled_by_a_constant},
              {0.625F, 2, "5/8 of the right value", FindingKind::scaled_by_a_constant},
              {0.0F, 2, "nothing arrived", FindingKind::nothing_arrived},
              {-1.0F, 2, "the sign is flipped", FindingKind::sign_flipped}};
  for (const auto& row : rows) {
    const ClaimResult result = judge_scaled(row.factor, row.ranks);
    ASSERT_EQ(result.verdict, Verdict::violated) << row.factor;
    EXPECT_THAT(origin_in_words(result.findings.at(0)), HasSubstr(row.words)) << row.factor;
    EXPECT_EQ(result.findings.at(0).kind, row.kind) << row.factor;
    EXPECT_DOUBLE_EQ(*result.findings.at(0).ratio, row.factor);
  }
}

TEST(Equality, GuessesNothingForAnOddRatioOrAnotherDirection) {
  EXPECT_EQ(origin_in_words(judge_scaled(0.777F, 2).findings.at(0)), "");
  EXPECT_EQ(judge_scaled(0.777F, 2).findings.at(0).kind, FindingKind::wrong_values);
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, 0});
  files.add(0, 1, "w", {0.5F, 0.5F});  // projects to one half but is not one half
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  EXPECT_EQ(origin_in_words(result.findings.at(0)), "");
  EXPECT_NEAR(*result.findings.at(0).cosine, std::sqrt(0.5), 1e-12);
}

TEST(Equality, RecognisesARanksOwnGradient) {
  LiteralEvidence files(2);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, 5}, {Kind::gradient, Phase::post_backward, 0}).replica_group =
      group_of_one(0);
  expected.add(0, 1, "w", {3, 1}, {Kind::gradient, Phase::post_backward, 1}).replica_group =
      group_of_one(1);
  expected.add(0, 1, "w", {2, 3});
  files.add(0, 1, "w", {1, 5});
  files.add(1, 1, "w", {3, 1});
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("never synchronised"));
}

TEST(Equality, OfAValueThatIsNotFiniteIsViolated) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, 2});
  files.add(0, 1, "w", {1, std::numeric_limits<float>::infinity()});
  const StepReader reference = expected.write();
  EXPECT_EQ(judge_one(kEqual, files.write(), &reference).verdict, Verdict::violated);
}

TEST(Equality, OfAMissingGradientIsViolated) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  expected.add(0, 1, "w", {1, 2});
  files.add_undefined(0, 1, "w");
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence, HasSubstr("undefined"));
}

TEST(Equality, ComparesASmallTensorBesideALargeOne) {
  LiteralEvidence files(1);
  LiteralEvidence expected(1);
  for (LiteralEvidence* side : {&files, &expected}) side->add(0, 1, "large", {100});
  expected.add(0, 1, "small", {0.1F});
  files.add(0, 1, "small", {0.2F});
  const StepReader reference = expected.write();
  const ClaimResult result = judge_one(kEqual, files.write(), &reference);
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.findings.at(0).tensor, "small");
}

TEST(Endings, HoldWhenEveryRankFinished) {
  LiteralEvidence files(2);
  const ClaimResult result =
      judge_one(ranks_finish(), files.write(), nullptr,
                {exit_of(0, ExitKind::finished, 0), exit_of(1, ExitKind::finished, 1)});
  EXPECT_EQ(result.verdict, Verdict::holds);
}

TEST(Endings, OfPeersOfADeadRankAreNoFindings) {
  LiteralEvidence files(3);
  RankExit ended_by_us = exit_of(2, ExitKind::unfinished, 2);
  ended_by_us.detail = "ended 5 s after rank 1 failed";
  ended_by_us.cause = ExitCause::peer_failed;
  const ClaimResult result = judge_one(
      ranks_finish(), files.write(), nullptr,
      {exit_of(0, ExitKind::raised, 1, "[pair.cc:1] Connection closed by peer [127.0.0.1]:1"),
       exit_of(1, ExitKind::raised, 0, "the genuine reason"), ended_by_us});
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_EQ(result.findings[0].failure->rank, 1);
  EXPECT_THAT(result.findings[0].sentence, HasSubstr("the genuine reason"));
}

TEST(Endings, AreAllFindingsWhenNobodyIsTheCulprit) {
  LiteralEvidence files(2);
  const ClaimResult result = judge_one(
      ranks_finish(), files.write(), nullptr,
      {exit_of(0, ExitKind::raised, 0, "Timed out waiting 5000ms for recv operation to complete"),
       exit_of(1, ExitKind::raised, 1, "Connection closed by peer")});
  EXPECT_EQ(result.findings.size(), 2U);
}

TEST(Endings, TellHowLongAfterTheDamageTheErrorCame) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  files.add(1, 1, "w", {2});
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = 2;
  cell.claims = {ranks_finish(), kAgree};
  cell.evidence = &evidence;
  cell.exits = {exit_of(0, ExitKind::finished, 1), exit_of(1, ExitKind::raised, 0, "too late")};
  const auto results = judge(cell);
  EXPECT_EQ(results[0].findings.at(0).failure->lag, 1);
  EXPECT_THAT(results[0].findings[0].sentence, HasSubstr("1 step earlier, in step 1"));
}

TEST(Agreement, ThatWasNotObservedToTheLastStepIsUndecided) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 1; step <= 3; ++step) files.add(rank, step, "w", {1});
  }
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = 2;
  cell.steps = 3;
  cell.claims = {kAgree};
  cell.evidence = &evidence;
  EXPECT_EQ(judge(cell).front().verdict, Verdict::holds);
  cell.steps = 4;
  const ClaimResult result = judge(cell).front();
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("in step 4 of 4"));
}

TEST(Agreement, ThatLeavesOutAStepIsUndecided) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const int step : {1, 3}) files.add(rank, step, "w", {1});
  }
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = 2;
  cell.steps = 3;
  cell.claims = {kAgree};
  cell.evidence = &evidence;
  EXPECT_EQ(judge(cell).front().verdict, Verdict::undecided);
}

TEST(StepReader, WhoseValuesAreNotTheDigestedOnesIsRefused) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {1, 2});
  files.write();
  const auto file = snapshot_file(files.folder(), 0, 1);
  auto tensors = read_safetensors(file);
  tensors.begin()->second.bytes[0] ^= std::byte{1};
  write_safetensors(file, tensors);
  EXPECT_THROW(StepReader(files.folder(), 1).at(1), Error);
}

TEST(StepReader, SaysWhichSnapshotsAreMissing) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {1});
  files.lose_values(1, 1);
  const StepReader evidence = files.write();
  EXPECT_EQ(evidence.missing_snapshots(0, false), "");
  EXPECT_EQ(evidence.missing_snapshots(1, false), "rank 1: snapshots of step 1 are missing");
}

TEST(StepReader, NamesMissingSnapshotsInOneNote) {
  LiteralEvidence files(1);
  for (std::int64_t step = 1; step <= 9; ++step) files.add(0, step, "w", {1});
  for (const std::int64_t step : {1, 4, 5, 6, 8, 9}) files.lose_values(0, step);
  const StepReader evidence = files.write();
  EXPECT_EQ(evidence.missing_snapshots(0, /*was_ended=*/false),
            "rank 0: snapshots of steps 1, 4 to 6, 8 to 9 are missing");
  EXPECT_EQ(evidence.missing_snapshots(0, /*was_ended=*/true),
            "rank 0: snapshots of steps 1, 4 to 6, 8 are missing");
}

TEST(StepReader, MissesNoSnapshotOfTheStepInWhichARankWasEnded) {
  LiteralEvidence files(1);
  for (const std::int64_t step : {1, 2}) files.add(0, step, "w", {1});
  files.lose_values(0, 2);
  EXPECT_EQ(files.write().missing_snapshots(0, /*was_ended=*/true), "");
}

/// A rank that differs, and a reference whose perturbed process may have lost its snapshots.
ClaimResult judge_with_perturbed_values(bool has_them) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {2});
  LiteralEvidence reference(2);
  reference.add(0, 1, "w", {1});
  reference.add(1, 1, "w", {1.0000001F});
  if (!has_them) reference.lose_values(1, 1);
  const StepReader read = reference.write();
  return judge_one(kEqual, files.write(), &read);
}

TEST(Equality, BlamesNobodyWithoutTheValuesThatTheToleranceIsMadeOf) {
  EXPECT_EQ(judge_with_perturbed_values(true).verdict, Verdict::violated);
  const ClaimResult result = judge_with_perturbed_values(false);
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_TRUE(result.findings.empty());
  EXPECT_EQ(result.reason,
            "perturbed reference 1 has no value of w in step 1, so the tolerance is unknown");
}

TEST(Table, HoldsElementsDriftAndWhetherTheBitsAgree) {
  LiteralEvidence buggy(2);
  LiteralEvidence fixed(2);
  for (int rank = 0; rank < 2; ++rank) {
    buggy.add(rank, 1, "w", {1, static_cast<float>(rank)});
    fixed.add(rank, 1, "w", {1, 7});
  }
  const StepReader buggy_files = buggy.write();
  const StepReader fixed_files = fixed.write();
  TableSpec spec;
  spec.tensor = "w";
  spec.element = 1;
  spec.groups = {{"BUGGY", "b"}, {"FIXED", "f"}, {"ABSENT", "a"}};
  const Table table = measured_table(spec, {&buggy_files, &fixed_files, nullptr});
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_THAT(table.rows[0].entries[0].values, ElementsAre(0, 1));
  EXPECT_FALSE(table.rows[0].entries[0].synced);
  EXPECT_TRUE(table.rows[0].entries[1].synced);
  EXPECT_TRUE(std::isnan(table.rows[0].entries[2].values.at(0)));
  spec.quantity = Quantity::drift;
  EXPECT_THAT(measured_table(spec, {&buggy_files, &fixed_files}).rows[0].entries[0].values,
              ElementsAre(1));
}

TEST(Table, SyncedLooksAtTheWholeTensorNotAtTheElement) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {1, static_cast<float>(rank)});
  const StepReader evidence = files.write();
  TableSpec spec;
  spec.tensor = "w";
  spec.groups = {{"BUGGY", "b"}};
  const Table table = measured_table(spec, {&evidence});
  EXPECT_THAT(table.rows[0].entries[0].values, ElementsAre(1, 1));
  EXPECT_FALSE(table.rows[0].entries[0].synced);
}

}  // namespace
}  // namespace lockstep
