// Tables over all tensors of a kind: norms, distances and the drift before a step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/judge/literal_evidence.h"
#include "tests/verdict/measured_table.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsNan;

const LiteralEvidence::Tensor kForward{Kind::parameter, Phase::pre_forward};

TableSpec spec_of(Quantity quantity) {
  TableSpec spec;
  spec.quantity = quantity;
  spec.groups = {{"BUGGY", "b"}};
  return spec;
}

std::vector<Table::Row> rows_of(const StepReader& evidence, const TableSpec& spec) {
  return measured_table(spec, {&evidence}).rows;
}

/// The entry of the first step.
Table::Entry norm_entry_of(const StepReader& evidence, Quantity quantity) {
  return rows_of(evidence, spec_of(quantity)).at(0).entries.at(0);
}
Table::Entry norm_entry_of(const LiteralEvidence& files, Quantity quantity) {
  return norm_entry_of(files.write(), quantity);
}

TEST(NormTable, IsOfAllTensorsOfTheKindTogether) {
  LiteralEvidence files(2);
  files.add(0, 1, "a", {3, 0});
  files.add(0, 1, "b", {0, 4});
  files.add(0, 1, "weight", {100}, {Kind::parameter, Phase::pre_step});
  files.add(0, 1, "a", {100}, {Kind::gradient, Phase::post_backward});
  files.add(1, 1, "a", {5, 0});
  files.add(1, 1, "b", {0, 12});
  EXPECT_THAT(norm_entry_of(files, Quantity::norm).values, ElementsAre(5, 13));
}

TEST(NormTable, IsOfOneTensorWhereItIsNamed) {
  LiteralEvidence files(1);
  files.add(0, 1, "a", {3, 4});
  files.add(0, 1, "b", {100});
  TableSpec spec = spec_of(Quantity::norm);
  spec.tensor = "a";
  EXPECT_THAT(rows_of(files.write(), spec).at(0).entries.at(0).values, ElementsAre(5));
}

TEST(NormTable, LeavesOutAGradientThatIsUndefined) {
  LiteralEvidence files(1);
  files.add(0, 1, "a", {3, 4});
  files.add_undefined(0, 1, "b");
  EXPECT_THAT(norm_entry_of(files, Quantity::norm).values, ElementsAre(5));
}

TEST(NormTable, HasNoneWhereNothingWasObservedOrAValueIsNotFinite) {
  LiteralEvidence files(3);
  files.add(0, 1, "a", {3, 4});
  files.add(1, 1, "a", {3, std::numeric_limits<float>::infinity()});
  EXPECT_THAT(norm_entry_of(files, Quantity::norm).values, ElementsAre(5, IsNan(), IsNan()));
}

TEST(NormTable, ShowsTheDriftOfAllParametersBeforeTheStep) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1, 1}, kForward);
  files.add(1, 1, "w", {1, 1.25}, kForward);
  files.add(0, 1, "v", {2}, kForward);
  files.add(1, 1, "v", {1.5}, kForward);
  for (int rank = 0; rank < 2; ++rank) {
    files.add(rank, 1, "w", {7});
    files.add(rank, 1, "w", {static_cast<float>(100 * rank)}, {Kind::parameter, Phase::post_step});
  }
  EXPECT_EQ(norm_entry_of(files, Quantity::norm).drift, 0.5);
}

TEST(NormTable, HasNoDriftWhereParametersWereNotObservedBeforeTheStep) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "w", {7});
  const StepReader evidence = files.write();
  const auto drift = norm_entry_of(evidence, Quantity::norm).drift;
  ASSERT_TRUE(drift);
  EXPECT_THAT(*drift, IsNan());
  EXPECT_FALSE(norm_entry_of(evidence, Quantity::distance).drift) << "comes with a norm only";
}

TEST(NormTable, IsSyncedWhereAllRanksHoldTheSameBitsOfEveryTensor) {
  LiteralEvidence same(2);
  LiteralEvidence other(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (LiteralEvidence* files : {&same, &other}) files->add(rank, 1, "a", {1, 2});
    same.add(rank, 1, "b", {3});
    other.add(rank, 1, "b", {rank == 0 ? 3.0F : -3.0F});
  }
  EXPECT_TRUE(norm_entry_of(same, Quantity::norm).synced);
  const Table::Entry entry = norm_entry_of(other, Quantity::norm);
  EXPECT_FALSE(entry.synced) << "although of equal norm";
  EXPECT_THAT(entry.values, ElementsAre(std::sqrt(14.0), std::sqrt(14.0)));
}

TEST(NormTable, IsNotSyncedWhereARankHasATensorMore) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "a", {1});
  files.add(0, 1, "b", {1});
  EXPECT_FALSE(norm_entry_of(files, Quantity::norm).synced);
  LiteralEvidence mirrored(2);
  for (int rank = 0; rank < 2; ++rank) mirrored.add(rank, 1, "a", {1});
  mirrored.add(1, 1, "b", {1});
  EXPECT_FALSE(norm_entry_of(mirrored, Quantity::norm).synced);
}

TEST(DistanceTable, IsTheLargestDifferenceToRank0InAnyTensor) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) {
    files.add(rank, 1, "a", {1, 1 + static_cast<float>(rank)});
    files.add(rank, 1, "b", {rank == 1 ? -4.0F : 0.0F});
  }
  EXPECT_THAT(norm_entry_of(files, Quantity::distance).values, ElementsAre(0, 4, 2));
}

TEST(DistanceTable, HasNoneWhereATensorIsMissingOrOfAnotherShape) {
  LiteralEvidence files(4);
  for (int rank = 0; rank < 4; ++rank) files.add(rank, 1, "a", {1});
  for (const int rank : {0, 1}) files.add(rank, 1, "b", {1});
  files.add(2, 1, "b", {1, 1});
  EXPECT_THAT(norm_entry_of(files, Quantity::distance).values, ElementsAre(0, 0, IsNan(), IsNan()));
}

TEST(DistanceTable, HasNoneWhereTheValuesOfAStepWereLost) {
  LiteralEvidence files(2);
  for (int rank = 0; rank < 2; ++rank) files.add(rank, 1, "a", {1});
  files.lose_values(1, 1);
  EXPECT_THAT(norm_entry_of(files, Quantity::distance).values, ElementsAre(0, IsNan()));
}

TEST(DriftTable, IsOfAllTensorsWhereNoneIsNamed) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) {
    files.add(rank, 1, "a", {static_cast<float>(rank)});
    files.add(rank, 1, "b", {static_cast<float>(-3 * rank)});
  }
  EXPECT_THAT(norm_entry_of(files, Quantity::drift).values, ElementsAre(6));
}

TEST(TableOfChosenSteps, HasThoseOnlyAndOnlyWhereTheyWereObserved) {
  LiteralEvidence files(1);
  for (int step = 1; step <= 5; ++step) files.add(0, step, "a", {static_cast<float>(step)});
  const StepReader evidence = files.write();
  TableSpec spec = spec_of(Quantity::norm);
  const auto steps = [&] {
    std::vector<std::int64_t> all;
    for (const Table::Row& row : rows_of(evidence, spec)) all.push_back(row.step);
    return all;
  };
  EXPECT_THAT(steps(), ElementsAre(1, 2, 3, 4, 5));
  spec.steps = {4, 2, 8};
  EXPECT_THAT(steps(), ElementsAre(2, 4));
  EXPECT_THAT(rows_of(evidence, spec).at(1).entries.at(0).values, ElementsAre(4));
}

TEST(TableOfSeveralGroups, ShowsNotMeasuredWhereOneWasNotRun) {
  LiteralEvidence files(1);
  files.add(0, 1, "a", {3, 4});
  const StepReader evidence = files.write();
  TableSpec spec = spec_of(Quantity::norm);
  spec.groups.push_back({"FIXED", "f"});
  const Table table = measured_table(spec, {&evidence, nullptr});
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_TRUE(table.rows[0].entries.at(0).is_measured());
  EXPECT_FALSE(table.rows[0].entries.at(1).is_measured());
}

}  // namespace
}  // namespace lockstep
