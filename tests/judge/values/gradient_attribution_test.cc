#include "harness/judge/values/gradient_attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/judge/evidence/cell_evidence.h"
#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using Values = std::vector<float>;

/// A reference that records the gradients from each rank's shard, and ranks with one gradient to
/// attribute.
class Origin {
 public:
  explicit Origin(int world_size) : world_size_(world_size), reference_(1), actual_(world_size) {}

  /// Records in the reference that the shard of `rank` gives `values` for `name`.
  Observation& note(int rank, const std::string& name, const Values& values) {
    Observation& observation =
        reference_.add(0, 1, name, values, {Kind::gradient, Phase::post_backward, rank});
    observation.replica_group = group_of_one(rank);
    return observation;
  }

  /// Attribution of `rank`'s shard of the one-dimensional gradient `name`: as many elements as
  /// `values`, from `offset` on.
  std::string of_shard(int rank, const std::string& name, const Values& values,
                       std::int64_t elements, std::int64_t offset) {
    actual_.add_shard(rank, 1, name, values, {elements}, {offset},
                      {static_cast<std::int64_t>(values.size())});
    return origin(rank);
  }

  /// Attribution of `rank`'s gradient `name`.
  std::string of(int rank, const std::string& name, const Values& values,
                 Kind kind = Kind::gradient) {
    actual_.add(rank, 1, name, values, {kind, Phase::pre_step});
    return origin(rank);
  }

 private:
  std::string origin(int rank) {
    const StepReader actual = actual_.write();
    const StepReader reference = reference_.write();
    const auto seen = actual.at(1);
    const auto expected = reference.at(1);
    return attribution_of_gradient({*seen, expected.get()}, world_size_,
                                   seen->observations(rank).front(), rank)
        .words;
  }

  int world_size_;
  LiteralEvidence reference_;
  LiteralEvidence actual_;
};

/// Two ranks with the gradients "a" and "b" of two elements.
struct TwoRanks : Origin {
  TwoRanks() : Origin(2) {
    note(0, "a", {1, 2});
    note(0, "b", {10, -20});
    note(1, "a", {3, 4});
    note(1, "b", {-30, 50});
  }
};

constexpr const char* kDifferent = ": different tensors were reduced with each other";

TEST(GradientAttribution, OfAShardIsSoughtWhereItLies) {
  EXPECT_EQ(TwoRanks().of_shard(1, "a", {4}, 2, 1),
            "it is the rank's own gradient: never synchronised");
  EXPECT_EQ(TwoRanks().of_shard(1, "a", {2}, 2, 1), "it is rank 0's own gradient");
  EXPECT_EQ(TwoRanks().of_shard(1, "a", {3}, 2, 1), "");
}

TEST(GradientAttribution, OfAShardOfZerosIsUnknown) {
  Origin origin(2);
  origin.note(0, "a", {1, 4});
  origin.note(1, "a", {5, 0});
  EXPECT_EQ(origin.of_shard(1, "a", {0}, 2, 1), "");
}

TEST(GradientAttribution, OfZerosIsUnknownWhateverRankHasNone) {
  Origin origin(2);
  origin.note(0, "a", {0, 0});
  origin.note(1, "a", {8, 2});
  EXPECT_EQ(origin.of(0, "a", {0, 0}), "") << "nothing arrived";
}

TEST(GradientAttribution, OfTheRanksOwnGradientIsThatItWasNeverSynchronised) {
  EXPECT_EQ(TwoRanks().of(1, "a", {3, 4}), "it is the rank's own gradient: never synchronised");
}

TEST(GradientAttribution, OfAnotherRanksGradientIsThatRank) {
  EXPECT_EQ(TwoRanks().of(1, "a", {1, 2}), "it is rank 0's own gradient");
}

TEST(GradientAttribution, OfTheMeanOfTwoNamesNamesBothWithTheirRanks) {
  EXPECT_EQ(TwoRanks().of(0, "a", {-14.5, 26}),
            std::string("it is the mean of a on rank 0 and b on rank 1") + kDifferent);
  EXPECT_EQ(TwoRanks().of(1, "a", {6.5, -8}),
            std::string("it is the mean of a on rank 1 and b on rank 0") + kDifferent);
}

TEST(GradientAttribution, OfAMeanIsFoundHoweverSmallItIs) {
  Origin origin(2);
  origin.note(0, "a", {0x1p-20F, 0});
  origin.note(1, "b", {0, 0x1p-20F});
  EXPECT_EQ(origin.of(0, "a", {0x1p-21F, 0x1p-21F}),
            std::string("it is the mean of a on rank 0 and b on rank 1") + kDifferent);
}

TEST(GradientAttribution, NamesAMixtureWhereEachRankHasOneTensorOfTheShape) {
  Origin origin(2);
  origin.note(0, "a", {1, 2});
  origin.note(1, "b", {-30, 50});
  EXPECT_EQ(origin.of(0, "a", {-14.5, 26}),
            std::string("it is the mean of a on rank 0 and b on rank 1") + kDifferent);
}

TEST(GradientAttribution, HasNoMixtureWhereARankHasNoTensorOfTheShape) {
  Origin origin(2);
  origin.note(0, "a", {1, 2});
  origin.note(0, "b", {-30, 50});
  EXPECT_EQ(origin.of(0, "a", {-14.5, 26}), "");
}

TEST(GradientAttribution, OfTheMeanOfOneNameIsNotAMixture) {
  EXPECT_EQ(TwoRanks().of(0, "a", {2, 3}), "");
  EXPECT_EQ(TwoRanks().of(0, "a", {-10, 15}), "") << "the mean of another name is none either";
}

TEST(GradientAttribution, OfUnrelatedValuesIsNotKnown) {
  EXPECT_EQ(TwoRanks().of(0, "a", {-14.5, 27}), "");
  EXPECT_EQ(TwoRanks().of(0, "a", {-29, 52}), "") << "the sum is not the mean";
  EXPECT_EQ(TwoRanks().of(0, "a", {0, 0}), "");
}

TEST(GradientAttribution, AllowsForTheRoundingsOfTheSumOnly) {
  EXPECT_NE(TwoRanks().of(0, "a", {-14.500001F, 26}), "") << "one unit in the last place";
  EXPECT_EQ(TwoRanks().of(0, "a", {-14.501F, 26}), "");
}

TEST(GradientAttribution, NamesAllRanksOfANameInRankOrder) {
  Origin origin(4);
  const std::vector<Values> a{{1}, {2}, {4}, {8}};
  const std::vector<Values> b{{100}, {300}, {700}, {1500}};
  for (int rank = 0; rank < 4; ++rank) {
    origin.note(rank, "a", a[static_cast<std::size_t>(rank)]);
    origin.note(rank, "b", b[static_cast<std::size_t>(rank)]);
  }
  EXPECT_EQ(origin.of(2, "b", {(1 + 300 + 4 + 1500) / 4.0F}),
            std::string("it is the mean of a on ranks 0,2 and b on ranks 1,3") + kDifferent);
}

TEST(GradientAttribution, TellsThreeNamesOfThreeRanks) {
  Origin origin(3);
  for (int rank = 0; rank < 3; ++rank) {
    const auto offset = static_cast<float>(rank);
    origin.note(rank, "x", {1 + offset, 0});
    origin.note(rank, "y", {100 + 10 * offset, 7});
    origin.note(rank, "z", {10000 + 300 * offset, -5});
  }
  EXPECT_EQ(
      origin.of(0, "x", {(10000 + 2 + 120) / 3.0F, (-5 + 0 + 7) / 3.0F}),
      std::string("it is the mean of x on rank 1 and y on rank 2 and z on rank 0") + kDifferent);
}

TEST(GradientAttribution, LooksAtTensorsOfTheSameShapeOnly) {
  Origin origin(2);
  origin.note(0, "a", {1, 2});
  origin.note(1, "a", {3, 4});
  origin.note(1, "b", {-30, 50, 1});
  EXPECT_EQ(origin.of(0, "a", {-14.5, 26}), "");
}

TEST(GradientAttribution, LooksAtTheSameStepOnly) {
  Origin origin(2);
  origin.note(0, "a", {1, 2}).step = 2;
  origin.note(1, "a", {3, 4}).step = 2;
  EXPECT_EQ(origin.of(1, "a", {3, 4}), "");
}

TEST(GradientAttribution, IsNotKnownWhereARankNotedNothing) {
  EXPECT_EQ(Origin(2).of(0, "a", {1, 2}), "");
  Origin origin(2);
  origin.note(0, "a", {1, 2});
  origin.note(0, "b", {3, 4});
  EXPECT_EQ(origin.of(0, "a", {2, 3}), "") << "nothing of rank 1";
}

TEST(GradientAttribution, IsNotKnownOfWhatIsNoGradientOrHasNoReference) {
  EXPECT_EQ(TwoRanks().of(1, "a", {3, 4}, Kind::parameter), "");
  LiteralEvidence files(2);
  files.add(0, 1, "a", {1});
  const StepReader evidence = files.write();
  const auto step = evidence.at(1);
  EXPECT_EQ(attribution_of_gradient({*step}, 2, step->observations(0).front(), 0).words, "");
}

/// The symptom of two ranks that hold `actual` as the gradient "a". `own`: the gradient from each
/// shard, `mean`: the correct one.
std::string told(const std::vector<Values>& actual, const std::vector<Values>& own,
                 const Values& mean) {
  LiteralEvidence reference(1);
  reference.add(0, 1, "a", mean);
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    files.add(rank, 1, "a", actual[place]);
    if (own[place].empty()) continue;
    const LiteralEvidence::Tensor what{Kind::gradient, Phase::post_backward, rank};
    reference.add(0, 1, "a", own[place], what).replica_group = group_of_one(rank);
  }
  const StepReader expected = reference.write();
  const StepReader evidence = files.write();
  return origin_in_words(judge_one(kEqual, evidence, &expected).findings.at(0));
}

TEST(GradientAttribution, OfRanksThatAgreeIsNotThatTheyNeverSynchronised) {
  EXPECT_THAT(told({{2, 4}, {2, 4}}, {{2, 4}, {}}, {1, 2}),
              testing::HasSubstr("summed over 2 ranks, never averaged"))
      << "one rank alone has a gradient, and the sum is divided by the ranks that have";
  EXPECT_EQ(told({{2, 4}, {2, 4}}, {{2, 4}, {8, 2}}, {5, 3}), "it is rank 0's own gradient")
      << "as where rank 0 broadcasts";
  EXPECT_EQ(told({{8, 2}, {8, 2}}, {{2, 4}, {8, 2}}, {5, 3}), "it is rank 1's own gradient");
  EXPECT_EQ(told({{2, 4}, {8, 2}}, {{2, 4}, {8, 2}}, {5, 3}),
            "it is the rank's own gradient: never synchronised");
}

TEST(GradientAttribution, IsToldInTheFinding) {
  LiteralEvidence reference(1);
  reference.add(0, 1, "a", {2, 3});
  for (const auto& [rank, a, b] : {std::tuple(0, Values{1, 2}, Values{10, -20}),
                                   std::tuple(1, Values{3, 4}, Values{-30, 50})}) {
    const LiteralEvidence::Tensor own{Kind::gradient, Phase::post_backward, rank};
    reference.add(0, 1, "a", a, own).replica_group = group_of_one(rank);
    reference.add(0, 1, "b", b, own).replica_group = group_of_one(rank);
  }
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "a", {-14.5, 26});
  const StepReader expected = reference.write();
  const StepReader actual = files.write();
  const ClaimResult result = judge_one(kEqual, actual, &expected);
  ASSERT_EQ(result.findings.size(), 1U);
  EXPECT_THAT(result.findings[0].sentence,
              testing::HasSubstr("it is the mean of a on rank 0 and b on rank 1"));
  EXPECT_EQ(result.findings[0].kind, FindingKind::gradients_mixed_up);
}

}  // namespace
}  // namespace lockstep
