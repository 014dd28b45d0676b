#include "harness/diff/compare_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/diff/literal_step.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Numbers = std::vector<float>;

LiteralStep& add_output(LiteralStep& step, int rank, const std::string& name, const Numbers& of) {
  return step.whole(rank, name, of, Kind::module_output, Phase::pre_forward);
}

/// Of one rank, and of two that have half of the samples each.
ModuleDifferences compare_batches(const Numbers& whole, const Numbers& first, const Numbers& rest) {
  LiteralStep one(1), two(2);
  add_output(one, 0, "layer", whole);
  add_output(two, 0, "layer", first);
  add_output(two, 1, "layer", rest);
  return compare_modules(one.view(), two.view(), {});
}

TEST(CompareModules, OfOtherWorldsTakesTheNormOfTheWholeBatch) {
  const ModuleDifferences found = compare_batches({1, 2, 3, 4}, {1, 2}, {3, 4});
  EXPECT_EQ(found.basis, ModuleBasis::whole_batch);
  EXPECT_FALSE(found.decides);
  ASSERT_EQ(found.tensors.size(), 1);
  EXPECT_EQ(found.tensors[0].name, "layer");
  EXPECT_EQ(found.tensors[0].quantity, Compared::output);
  EXPECT_EQ(found.tensors[0].likeness, Likeness::rounding);
  EXPECT_NEAR(found.tensors[0].relative, 0, 1e-12);
  const ModuleDifferences twice = compare_batches({1, 2, 3, 4}, {2, 4}, {6, 8});
  EXPECT_EQ(twice.tensors.at(0).likeness, Likeness::different);
  EXPECT_DOUBLE_EQ(twice.tensors.at(0).relative, 0.5);
  EXPECT_DOUBLE_EQ(twice.tensors.at(0).ratio.value(), 2);
}

/// As those of tensor-parallel ranks.
TEST(CompareModules, OfOtherWorldsCountsCopiesOnceIfThatIsAsMany) {
  const ModuleDifferences copies = compare_batches({1, 2}, {1, 2}, {1, 2});
  EXPECT_EQ(copies.tensors.at(0).likeness, Likeness::rounding);
  const ModuleDifferences parts = compare_batches({1, 2, 1, 2}, {1, 2}, {1, 2});
  EXPECT_EQ(parts.tensors.at(0).likeness, Likeness::rounding);
  const ModuleDifferences fewer = compare_batches({1, 2, 3, 4, 5, 6}, {1, 2}, {3, 4});
  EXPECT_THAT(fewer.tensors, IsEmpty());
  ASSERT_EQ(fewer.not_comparable.size(), 1);
  EXPECT_EQ(fewer.not_comparable[0].name, "layer");
  EXPECT_EQ(fewer.not_comparable[0].reason, "6 elements in A and 4 in B");
}

TEST(CompareModules, OfOtherWorldsSaysWhichSideIsNotFinite) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const ModuleDifferences in_b = compare_batches({1, 2, 3, 4}, {1, 2}, {3, none});
  EXPECT_EQ(in_b.tensors.at(0).likeness, Likeness::different);
  EXPECT_EQ(in_b.tensors.at(0).cause, "elements are not finite in B");
  const ModuleDifferences in_a = compare_batches({1, none, 3, 4}, {1, 2}, {3, 4});
  EXPECT_EQ(in_a.tensors.at(0).cause, "elements are not finite in A");
}

TEST(CompareModules, CountsThoseThatOneSideAloneHas) {
  for (const int ranks : {1, 2}) {  // by rank, and by the norms of the whole batch
    LiteralStep a(1), b(ranks);
    add_output(a, 0, "of_a", {1, 2});
    add_output(a, 0, "both", {1, 2});
    add_output(a, 0, "of_a_too", {1, 2});
    for (int rank = 0; rank < ranks; ++rank) {
      add_output(b, rank, "both", {1, 2});
      add_output(b, rank, "of_b", {1, 2});
    }
    const ModuleDifferences found = compare_modules(a.view(), b.view(), {});
    EXPECT_EQ(found.basis, ranks == 1 ? ModuleBasis::by_rank : ModuleBasis::whole_batch);
    EXPECT_THAT(found.alone, ElementsAre(2, 1));
    ASSERT_EQ(found.tensors.size(), 1);
    EXPECT_EQ(found.tensors[0].name, "both");
  }
}

TEST(CompareModules, ByRankNamesThoseWhoseOutputsDiffer) {
  LiteralStep a(3), b(3);
  for (int rank = 0; rank < 3; ++rank) {
    add_output(a, rank, "layer", {1, 2});
    add_output(b, rank, "layer", {1, rank == 0 ? 2.0F : 4.0F});
  }
  const ModuleDifferences found = compare_modules(a.view(), b.view(), {});
  EXPECT_EQ(found.basis, ModuleBasis::by_rank);
  EXPECT_EQ(found.tensors.at(0).likeness, Likeness::different);
  EXPECT_THAT(found.tensors.at(0).ranks, ElementsAre(1, 2));
}

TEST(CompareModules, FindsNothingWhereOneSideHasNoModules) {
  LiteralStep a(1), b(1);
  add_output(a, 0, "layer", {1, 2});
  b.whole(0, "w", {1, 2});
  EXPECT_EQ(compare_modules(a.view(), b.view(), {}), ModuleDifferences{});
}

}  // namespace
}  // namespace lockstep
