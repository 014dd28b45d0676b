#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/record/measure.h"
#include "harness/record/sketch.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Agreement, LooksAtEveryMicroBatch) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {static_cast<float>(rank)}, {Kind::gradient, Phase::pre_step, 0});
    files.add(rank, 1, "w", {7}, {Kind::gradient, Phase::pre_step, 1});
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.comparisons, 2);
}

TEST(Agreement, OfATensorThatCannotBeComparedIsUndecided) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {1});
    files.add(rank, 1, "embedding", {1}).not_comparable = "sparse layout";
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_THAT(result.reason, HasSubstr("embedding in step 1 cannot be compared: sparse layout"));
}

TEST(Agreement, OfTwoReplicasIsUndecidedWhereOneStopsLooking) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {1}).replica_group = "a";
  files.add(0, 2, "w", {1}).replica_group = "a";
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::undecided);
}

TEST(Agreement, OfATensorThatAllRanksStopLookingAtIsUndecided) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 1; step <= 5; ++step) {
      files.add(rank, step, "w", {1});
      if (step <= 3) files.add(rank, step, "bias", {1});
    }
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, "no rank observed bias after step 3 of 5");
}

TEST(Agreement, OfAShardThatAllItsHoldersStopLookingAtIsUndecided) {
  LiteralEvidence files(4);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string group = rank < 2 ? "0,1" : "2,3";
    const std::int64_t last = rank < 2 ? 5 : 3;
    for (std::int64_t step = 1; step <= last; ++step) {
      files.add_shard(rank, step, "w", {1}, {2}, {rank / 2}, {1}).replica_group = group;
    }
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::undecided);
}

TEST(Agreement, OfFewerMicroBatchesInTheLastStepHolds) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const auto& [step, batch] : {std::pair(1, 0), {1, 1}, {2, 0}}) {
      files.add(rank, step, "w", {1}, {Kind::gradient, Phase::pre_step, batch});
    }
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::holds);
}

TEST(Agreement, HoldsOfATensorThatComesInSomeStepsOnly) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 1; step <= 5; ++step) {
      files.add(rank, step, "w", {1});
      if (step == 3 || step == 5) files.add(rank, step, "bias", {1});
    }
  }
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::holds);
}

TEST(Agreement, IsAskedWithinAReplicaGroupOnly) {
  LiteralEvidence files(4);
  for (int rank = 0; rank < 4; ++rank) {
    files.add(rank, 1, "w", {static_cast<float>(rank / 2)}).replica_group = rank < 2 ? "a" : "b";
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 2);
}

/// Ranks 0 and 1 hold the first half of a tensor, 2 and 3 the second.
ClaimResult judge_halves(const std::vector<float>& values) {
  LiteralEvidence files(4);
  for (int rank = 0; rank < 4; ++rank) {
    const float value = values.at(static_cast<std::size_t>(rank));
    files.add_shard(rank, 1, "w", {value}, {2}, {rank / 2}, {1}).replica_group = "";
  }
  return judge_one(kAgree, files.write());
}

TEST(Agreement, IsAskedOfEqualShardsOnly) {
  const ClaimResult result = judge_halves({1, 1, 2, 2});
  EXPECT_EQ(result.verdict, Verdict::holds);
  EXPECT_EQ(result.comparisons, 2);
  EXPECT_THAT(judge_halves({1, 1, 2, 3}).findings.at(0).groups,
              ElementsAre(ElementsAre(2), ElementsAre(3)));
}

TEST(Agreement, OfShardsThatNobodyElseHoldsIsUndecided) {
  LiteralEvidence files(2);
  files.add_shard(0, 1, "w", {1}, {2}, {0}, {1});
  files.add_shard(1, 1, "w", {2}, {2}, {1}, {1});
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::undecided);
  EXPECT_EQ(result.reason, "not triggered: nothing was compared");
}

TEST(Agreement, OfEqualBitsOfAnotherDTypeIsViolated) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {0});
  files.add(1, 1, "w", {0}).dtype = "int32";
  const ClaimResult result = judge_one(kAgree, files.write());
  ASSERT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).sentence,
              HasSubstr("float32 on rank 0 but is int32 on rank 1"));
}

TEST(Agreement, MeasuresNothingBetweenDTypes) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1});
  Observation& other = files.add(1, 1, "w", {2});
  other.dtype = "int32";
  other.statistics.norm = 0x40000000;  // the bits of 2.0F
  files.write();
  const auto file = snapshot_file(files.folder(), 1, 1);
  auto tensors = read_safetensors(file);
  tensors.begin()->second.dtype = DType::int32;
  write_safetensors(file, tensors);
  EXPECT_FALSE(judge_one(kAgree, StepReader(files.folder(), 2)).findings.at(0).first_difference);
}

TEST(Agreement, OfATensorThatOneRankCannotCompareIsViolated) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {0});  // its digest is that of an empty tensor
  files.add(1, 1, "w", {0}).not_comparable = "sparse layout";
  EXPECT_EQ(judge_one(kAgree, files.write()).verdict, Verdict::violated);
}

TEST(Agreement, MeasuresWhatIsNotFiniteAsNoNumber) {
  LiteralEvidence files(3);
  files.add(0, 1, "w", {1});
  files.add(1, 1, "w", {std::numeric_limits<float>::infinity()});
  files.add(2, 1, "w", {5});
  const Finding finding = judge_one(kAgree, files.write()).findings.at(0);
  EXPECT_TRUE(std::isnan(finding.worst_difference));
  EXPECT_TRUE(std::isnan(finding.last_worst_difference));
}

TEST(Agreement, CountsTheElementsBetweenTheFurthestRanks) {
  LiteralEvidence files(3);
  files.add(0, 1, "w", {1, 1});
  files.add(1, 1, "w", {1, 2});
  files.add(2, 1, "w", {9, 9});
  const Finding finding = judge_one(kAgree, files.write()).findings.at(0);
  EXPECT_EQ(finding.worst_difference, 8);
  EXPECT_EQ(finding.differing_elements, 2);
}

TEST(Agreement, TellsHowFarTheLastStepGoes) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {8.0F * static_cast<float>(rank)});
    files.add(rank, 2, "w", {0.5F * static_cast<float>(rank)});
  }
  const Finding finding = judge_one(kAgree, files.write()).findings.at(0);
  EXPECT_EQ(finding.last_worst_difference, 0.5);
  EXPECT_THAT(finding.sentence, HasSubstr("Ranks still differ at step 2 (max 0.5)"));
}

TEST(Agreement, ThatBreaksInTheLastStepGoesOnNowhere) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {static_cast<float>(rank)});
  EXPECT_THAT(judge_one(kAgree, files.write()).findings.at(0).sentence, Not(HasSubstr("goes on")));
}

TEST(Agreement, ThatIsViolatedNeedsNoReasonForWhatWasNotSeen) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {static_cast<float>(rank)});
  files.add(0, 2, "w", {1});
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_EQ(result.reason, "");
}

TEST(Agreement, OfAReplicaGroupComparesWhoeverHoldsIt) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) {
    files.add(rank, 1, "e", {1}, {Kind::gradient, Phase::pre_step, 0}).replica_group = "0,1,2";
  }
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "e", {static_cast<float>(rank)}, {Kind::gradient, Phase::pre_step, 1})
        .replica_group = "0,1,2";
  }
  const ClaimResult result = judge_one(kAgree, files.write());
  EXPECT_EQ(result.verdict, Verdict::violated);
  EXPECT_THAT(result.findings.at(0).groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
}

/// Two tensors of a job. From step 2 on ranks differ in the last bits of the parameters, and of the
/// gradients from `gradients_from` on.
void observe_rounding(std::int64_t gradients_from, LiteralEvidence& files) {
  const auto values_of = [](bool is_apart) {
    std::vector<float> values(40, 1);
    for (std::size_t i = 0; is_apart && i < values.size(); ++i) {
      values[i] = std::nextafter(1.0f, i % 2 == 0 ? 2.0f : 0.0f);
    }
    return values;
  };
  for (std::int64_t step = 1; step <= 4; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto gradient = values_of(rank == 1 && step >= gradients_from);
      const auto parameter = values_of(rank == 1 && step >= 2);
      for (const char* name : {"a", "b"}) {
        if (gradients_from > 0) files.add(rank, step, name, gradient);
        files.add(rank, step, name, parameter, {Kind::parameter, Phase::post_step, 0});
      }
    }
  }
}

ClaimResult judged_parameters(const LiteralEvidence& files, bool settings_differ = false) {
  const StepReader evidence = files.write();
  CellEvidence cell;
  cell.world_size = 2;
  cell.steps = std::nullopt;
  cell.is_job = true;
  cell.claims = {agree_across_ranks(Kind::parameter, Phase::post_step)};
  cell.evidence = &evidence;
  cell.settings_differ = settings_differ;
  return judge(cell).front();
}

TEST(ParametersThatDifferAsByRounding, HoldIfGradientsDidOrWereNotObserved) {
  for (const std::int64_t gradients_from : {0, 1, 2}) {
    LiteralEvidence files(2);
    observe_rounding(gradients_from, files);
    EXPECT_EQ(judged_parameters(files).verdict, Verdict::holds) << gradients_from;
  }
}

/// Nobody saw that they had the same bits.
TEST(ParametersThatDifferAsByRounding, HoldIfEachGradientWasObservedOnOneRank) {
  LiteralEvidence files(2);
  observe_rounding(0, files);
  for (std::int64_t step = 1; step <= 4; ++step) {
    files.add(0, step, "a", {1});
    files.add(1, step, "b", {1});
  }
  EXPECT_EQ(judged_parameters(files).verdict, Verdict::holds);
}

TEST(ParametersThatDifferAsByRounding, AreViolatedIfGradientsHadTheSameBits) {
  for (const std::int64_t gradients_from : {3, 5}) {
    LiteralEvidence files(2);
    observe_rounding(gradients_from, files);
    const ClaimResult result = judged_parameters(files);
    ASSERT_EQ(result.verdict, Verdict::violated);
    EXPECT_EQ(result.findings[0].step, 2);
    EXPECT_THAT(result.findings[0].sentence, HasSubstr("the gradients had the same bits"));
  }
}

TEST(ParametersThatDifferAsByRounding, AreViolatedIfOptimizersHaveOtherSettings) {
  LiteralEvidence files(2);
  observe_rounding(1, files);
  EXPECT_EQ(judged_parameters(files, true).verdict, Verdict::violated);
}

std::string sentence_of_gradients(const std::vector<float>& left, const std::vector<float>& right) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", left);
  files.add(1, 1, "w", right);
  return judge_one(kAgree, files.write()).findings.at(0).sentence;
}

/// The same of ranks that stored sketches only.
std::string sentence_of_sketches(const std::vector<float>& left, const std::vector<float>& right) {
  LiteralEvidence files(2);
  int rank = 0;
  for (const auto& values : {left, right}) {
    const Observation row = files.add(rank, 1, "w", values);
    files.lose_values(rank, 1);
    SketchWriter sketches(sketch_file(files.folder(), rank), "");
    sketches.append(1, {{0, sketch_of(row, std::as_bytes(std::span(values)))}});
    ++rank;
  }
  return judge_one(kAgree, files.write()).findings.at(0).sentence;
}

TEST(Difference, OfZerosIsNotOneOfNumbers) {
  EXPECT_THAT(sentence_of_gradients({0, 1}, {-0.0F, 1}),
              HasSubstr("1 of 2 elements, equal numbers with other bits; element [0] is 0 on rank "
                        "0 and -0 on rank 1"));
  EXPECT_THAT(sentence_of_gradients({0, 1}, {0, 2}), HasSubstr("1 of 2 elements, by up to 1;"));
  EXPECT_THAT(sentence_of_sketches({0, 1}, {-0.0F, 1}),
              testing::EndsWith("; the numbers are equal, with other bits."));
}

TEST(Difference, NamesAFactorUnlessThatIsOneAsItIsPrinted) {
  EXPECT_THAT(sentence_of_sketches({1, 2}, {2, 4}),
              testing::EndsWith("apart, that of rank 1 is 2 times that of rank 0."));
  const float near = std::nextafter(1.0F, 2.0F);
  EXPECT_THAT(sentence_of_sketches({1, 1}, {near, near}), testing::EndsWith(" norm apart."));
}

TEST(StepReader, OfARankThatNeverBeganIsEmpty) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {1});
  files.write();
  const StepReader evidence(files.folder(), 2);
  EXPECT_EQ(evidence.at(1)->observations(0).size(), 1U);
  EXPECT_TRUE(evidence.at(1)->observations(1).empty());
  EXPECT_EQ(evidence.rows(1), 0);
}

TEST(StepReader, SaysThatTheLastRowWasTorn) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {1});
  files.write();
  const auto journal = files.folder() / "rank-0.csv";
  std::filesystem::resize_file(journal, std::filesystem::file_size(journal) - 1);
  EXPECT_THAT(StepReader(files.folder(), 1).notes(),
              ElementsAre("rank 0: the last row of its journal was torn and left out"));
}

}  // namespace
}  // namespace lockstep
