#include "harness/verdict/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <tuple>

#include "tests/judge/literal_evidence.h"
#include "tests/verdict/measured_table.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

/// The entry of step 1 for the tensor "w" of these files.
Table::Entry entry_of(const LiteralEvidence& files, Quantity quantity, std::int64_t element = 0) {
  const StepReader evidence = files.write();
  TableSpec spec;
  spec.quantity = quantity;
  spec.tensor = "w";
  spec.element = element;
  spec.groups = {{"BUGGY", "b"}};
  return measured_table(spec, {&evidence}).rows.at(0).entries.at(0);
}

TEST(Table, HasNoElementBehindTheEndOfATensor) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {1});
  EXPECT_TRUE(std::isnan(entry_of(files, Quantity::element, 1).values.at(0)));
}

TEST(Table, ShowsTheObservationsOfItsKindAndPointOnly) {
  LiteralEvidence files(1);
  files.add(0, 1, "w", {1});
  files.add(0, 1, "w", {2}, {Kind::parameter, Phase::pre_step});
  files.add(0, 1, "w", {3}, {Kind::gradient, Phase::post_backward});
  files.add(0, 1, "v", {4});
  EXPECT_THAT(entry_of(files, Quantity::element).values, ElementsAre(1));
}

TEST(Table, TakesTheDriftBetweenTheFurthestRanks) {
  LiteralEvidence files(3);
  for (int rank = 0; rank < 3; ++rank) files.add(rank, 1, "w", {static_cast<float>(rank)});
  EXPECT_THAT(entry_of(files, Quantity::drift).values, ElementsAre(2));
}

TEST(Table, HasNoDriftWhereARankHasNoValueOrAnotherShape) {
  LiteralEvidence without(2);
  without.add(0, 1, "w", {1});
  without.add_undefined(1, 1, "w");
  EXPECT_TRUE(std::isnan(entry_of(without, Quantity::drift).values.at(0)));
  LiteralEvidence longer(2);
  longer.add(0, 1, "w", {1});
  longer.add(1, 1, "w", {1, 0});
  EXPECT_TRUE(std::isnan(entry_of(longer, Quantity::drift).values.at(0)));
}

TEST(Table, CallsNothingSyncedThatIsNotThere) {
  LiteralEvidence nothing(2);
  for (int rank = 0; rank < 2; ++rank) nothing.add_undefined(rank, 1, "w");
  EXPECT_FALSE(entry_of(nothing, Quantity::element).synced);
  LiteralEvidence one(2);
  one.add(0, 1, "w", {1});
  EXPECT_FALSE(entry_of(one, Quantity::element).synced);
}

/// The other rank may hang.
TEST(Table, OfAJobLeavesOutRanksThatObservedNothing) {
  LiteralEvidence files(3);
  const LiteralEvidence::Tensor after{Kind::parameter, Phase::post_step, 0};
  for (const auto& [rank, step, value] : {std::tuple(0, 1, 1.0F), std::tuple(2, 1, 1.0F),
                                          std::tuple(0, 2, 1.0F), std::tuple(2, 2, 3.0F)}) {
    files.add(rank, step, "w", {value});
    files.add(rank, step, "w", {value}, after);
  }
  const StepReader evidence = files.write();
  const std::set<std::string> names{"w"};
  TableSpec norms;
  norms.quantity = Quantity::norm;
  EXPECT_TRUE(measured_entry(norms, *evidence.at(1), &names).synced);
  EXPECT_FALSE(measured_entry(norms, *evidence.at(2), &names).synced);
  EXPECT_FALSE(measured_entry(norms, *evidence.at(1), nullptr).synced) << "of a cell";
  TableSpec drift;
  drift.quantity = Quantity::drift;
  drift.kind = after.kind;
  drift.phase = after.phase;
  EXPECT_TRUE(std::isnan(measured_entry(drift, *evidence.at(1), &names).values.at(0)));
}

TEST(Table, SyncedTellsShapesApartThatHaveTheSameWords) {
  LiteralEvidence files(2);
  files.add(0, 1, "w", {1, 2});
  files.add(1, 1, "w", {1, 2, 0});
  const StepReader evidence = files.write();
  TableSpec spec;
  spec.tensor = "w";
  spec.groups = {{"BUGGY", "b"}};
  EXPECT_FALSE(measured_table(spec, {&evidence}).rows.at(0).entries.at(0).synced);
}

}  // namespace
}  // namespace lockstep
