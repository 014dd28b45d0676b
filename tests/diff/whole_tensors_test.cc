#include "harness/diff/whole_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/diff/literal_step.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const WholeTensorKey kGradient{Phase::pre_step, Kind::gradient, "w"};
const std::vector<float> kNumbers{1, 2, 3, 4, 5, 6};

WholeTensor whole_of(const LiteralStep& step) {
  const WholeTensors tensors(step.view());
  const WholeTensor* const found = tensors.find(kGradient);
  if (found) return *found;
  WholeTensor none;
  none.problem = "not found";
  return none;
}

std::vector<std::string> names_of(const WholeTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : tensors.all()) names.push_back(key.name);
  return names;
}

TEST(WholeTensors, OfShardsAreThoseOfOneRank) {
  const WholeTensor one = whole_of(LiteralStep(1).whole(0, "w", kNumbers));
  const WholeTensor sharded = whole_of(LiteralStep(3)
                                           .part(2, "w", {5, 6}, 2, 3)
                                           .part(0, "w", {1, 2}, 0, 3)
                                           .part(1, "w", {3, 4}, 1, 3));
  EXPECT_EQ(sharded.problem, "");
  EXPECT_EQ(sharded.digest, one.digest);
  EXPECT_EQ(sharded.sketch, one.sketch);
  EXPECT_DOUBLE_EQ(sharded.norm, one.norm);
  EXPECT_EQ(sharded.elements, 6);
}

TEST(WholeTensors, OfCopiesCountOnce) {
  const WholeTensor copies =
      whole_of(LiteralStep(2).whole(0, "w", kNumbers).whole(1, "w", kNumbers));
  EXPECT_EQ(copies.problem, "");
  EXPECT_DOUBLE_EQ(copies.norm, std::sqrt(91.0));
  EXPECT_EQ(copies.copies, 2);
  EXPECT_EQ(copies.parts, 1);
  const WholeTensor shards = whole_of(LiteralStep(4)
                                          .part(0, "w", {1, 2}, 0, 2)
                                          .part(1, "w", {3, 4}, 1, 2)
                                          .part(2, "w", {1, 2}, 0, 2)
                                          .part(3, "w", {3, 4}, 1, 2));
  EXPECT_EQ(shards.problem, "");
  EXPECT_DOUBLE_EQ(shards.norm, std::sqrt(30.0));
  EXPECT_EQ(shards.copies, 2);
  EXPECT_EQ(shards.parts, 2);
}

/// A step in which ranks hold summands: that of rank 2 is a copy of that of rank 0.
LiteralStep summands_of(const std::vector<float>& one, const std::vector<float>& other) {
  LiteralStep step(3);
  step.whole(0, "w", one).whole(1, "w", other).whole(2, "w", one);
  for (int rank = 0; rank < 3; ++rank) {
    Observation& row = step.ranks()[static_cast<std::size_t>(rank)].observations[0];
    row.is_summand = true;
    row.replica_group = rank == 1 ? "tp 1" : "tp 0";
  }
  return step;
}

TEST(WholeTensors, OfSummandsAreTheirSum) {
  const WholeTensor one = whole_of(LiteralStep(1).whole(0, "w", kNumbers));
  const WholeTensor sum = whole_of(summands_of({1, 0, 5, 4, 0, 0}, {0, 2, -2, 0, 5, 6}));
  EXPECT_EQ(sum.problem, "");
  EXPECT_EQ(sum.sketch, one.sketch);
  EXPECT_DOUBLE_EQ(sum.norm, one.norm);
  EXPECT_FALSE(sum.digest);
  EXPECT_EQ(sum.elements, 6);
}

TEST(WholeTensors, OfSummandsSayWhatIsUnknown) {
  LiteralStep without_sketches = summands_of(kNumbers, kNumbers);
  for (StepView::Rank& rank : without_sketches.ranks()) rank.sketches.clear();
  EXPECT_THAT(whole_of(without_sketches).problem, HasSubstr("not known by a sketch"));
  LiteralStep with_another = summands_of(kNumbers, kNumbers);
  with_another.ranks()[1].observations[0].is_summand = false;
  EXPECT_EQ(whole_of(with_another).problem, "the parts of ranks 0 and 1 overlap");
  LiteralStep differing = summands_of(kNumbers, kNumbers);
  differing.ranks()[2].observations[0].digest = {};
  EXPECT_EQ(whole_of(differing).problem, "ranks 0 and 2 hold different values of it");
}

TEST(WholeTensors, NameWhyTheyAreNotWhole) {
  const auto problem = [](const LiteralStep& step) { return whole_of(step).problem; };
  EXPECT_EQ(problem(LiteralStep(2).whole(0, "w", kNumbers).whole(1, "w", {1, 2, 3, 4, 5, 7})),
            "ranks 0 and 1 hold different values of it");
  EXPECT_EQ(problem(LiteralStep(2).part(0, "w", {1, 2}, 0, 3).part(1, "w", {5, 6}, 2, 3)),
            "ranks hold 4 of its 6 elements");
  EXPECT_EQ(
      problem(LiteralStep(2).part(0, "w", {1, 2, 3, 4}, 0, 3).part(1, "w", {3, 4, 5, 6}, 1, 3)),
      "the parts of ranks 0 and 1 overlap");
  EXPECT_EQ(problem(LiteralStep(2).whole(0, "w", {1, 2}).whole(1, "w", {1, 2, 3, 4})),
            "ranks 0 and 1 hold tensors of other shapes by this name");
  // The same bits of another type are no copy, and parts of other types no tensor.
  LiteralStep typed(2);
  typed.whole(0, "w", kNumbers).whole(1, "w", kNumbers);
  typed.ranks()[1].observations[0].dtype = "int32";
  EXPECT_EQ(problem(typed), "ranks 0 and 1 hold tensors of other shapes by this name");
  LiteralStep in_parts(2);
  in_parts.part(0, "w", {1, 2}, 0, 2).part(1, "w", {3, 4}, 1, 2);
  in_parts.ranks()[1].observations[0].dtype = "int32";
  EXPECT_EQ(problem(in_parts), "ranks 0 and 1 hold tensors of other shapes by this name");
  LiteralStep sparse(1);
  sparse.whole(0, "w", kNumbers);
  sparse.ranks()[0].observations[0].not_comparable = "sparse layout";
  EXPECT_EQ(problem(sparse), "sparse layout");
}

TEST(WholeTensors, HaveTheValuesOfRanksThatHoldNoCopies) {
  const std::vector<float> moved{1, 2, 3, 4, 5, 7};
  const WholeTensor apart = whole_of(LiteralStep(4)
                                         .whole(0, "w", kNumbers)
                                         .whole(1, "w", kNumbers)
                                         .whole(2, "w", moved)
                                         .whole(3, "w", moved));
  EXPECT_EQ(apart.problem, "ranks 0 and 2 hold different values of it");
  ASSERT_EQ(apart.others.size(), 1);
  EXPECT_EQ(apart.others[0].rank, 2);
  EXPECT_EQ(apart.others[0].problem, "");
  EXPECT_EQ(apart.others[0].digest, whole_of(LiteralStep(1).whole(0, "w", moved)).digest);
  EXPECT_THAT(whole_of(LiteralStep(2).whole(0, "w", kNumbers).whole(1, "w", kNumbers)).others,
              IsEmpty());
  const WholeTensor in_parts = whole_of(LiteralStep(3)
                                            .part(0, "w", {1, 2}, 0, 2)
                                            .part(1, "w", {3, 4}, 1, 2)
                                            .part(2, "w", {3, 5}, 1, 2));
  EXPECT_EQ(in_parts.problem, "ranks 1 and 2 hold different values of it");
  EXPECT_THAT(in_parts.others, IsEmpty());
  LiteralStep many(40);
  for (int rank = 0; rank < 40; ++rank) many.whole(rank, "w", {static_cast<float>(rank), 0});
  EXPECT_EQ(whole_of(many).others.size(), WholeTensor::kMostValues);
}

TEST(WholeTensors, HaveTheSketchesOfSnapshots) {
  LiteralStep step(1);
  step.whole(0, "w", kNumbers);
  StepView::Rank& rank = step.ranks()[0];
  const auto bytes = std::as_bytes(std::span(kNumbers));
  const Sketch sketch = rank.sketches.begin()->second;
  rank.sketches.clear();
  EXPECT_FALSE(whole_of(step).sketch);
  rank.tensors[snapshot_key(rank.observations[0])] = {
      DType::float32, {3, 2}, {bytes.begin(), bytes.end()}};
  EXPECT_EQ(whole_of(step).sketch, sketch);
}

TEST(WholeTensors, HaveTheNumbersOfStoredParts) {
  LiteralStep step(2);
  step.part(0, "w", {1, 2}, 0, 3).part(1, "w", {3, 4, 5, 6}, 1, 3);
  const auto store = [&](std::size_t rank, const std::vector<float>& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    step.ranks()[rank].tensors[snapshot_key(step.ranks()[rank].observations[0])] = {
        DType::float32,
        {static_cast<std::int64_t>(numbers.size()) / 2, 2},
        {bytes.begin(), bytes.end()}};
  };
  store(1, {3, 4, 5, std::numeric_limits<float>::infinity()});
  EXPECT_FALSE(whole_of(step).numbers) << "those of one part are missing";
  store(0, {1, 2});
  EXPECT_THAT(*whole_of(step).numbers, ElementsAre(1, 2, 3, 4, 5, 0));
}

/// Stages may hold other tensors by one name.
TEST(WholeTensors, HaveNoNumbersOfPartsThatAreNotOfOneTensor) {
  LiteralStep step(2);
  step.part(0, "w", {1, 2}, 0, 1).part(1, "w", std::vector<float>(4000, 1), 0, 2000);
  for (StepView::Rank& rank : step.ranks()) {
    const auto elements = rank.observations[0].local_shape;
    rank.tensors[snapshot_key(rank.observations[0])] = {
        DType::float32, elements,
        std::vector<std::byte>(static_cast<std::size_t>(elements[0] * elements[1]) * 4)};
  }
  EXPECT_NE(whole_of(step).problem, "");
  EXPECT_FALSE(whole_of(step).numbers);
}

TEST(WholeTensors, AreInTheOrderOfExecutionAndOfTheModel) {
  LiteralStep step(2);
  step.whole(0, "b", kNumbers, Kind::parameter, Phase::post_step)
      .whole(0, "z", kNumbers)
      .whole(0, "a", kNumbers)
      .whole(1, "z", kNumbers)
      .whole(1, "a", kNumbers)
      .whole(1, "x", kNumbers, Kind::buffer)
      .whole(1, "m", kNumbers, Kind::gradient, Phase::post_backward);
  EXPECT_THAT(names_of(WholeTensors(step.view())), ElementsAre("z", "a", "b"));
}

TEST(WholeTensors, AreFusedByTheirNorms) {
  LiteralStep step(1);
  step.whole(0, "q", {3, 0}).whole(0, "k", {0, 4}).whole(0, "o", kNumbers);
  WholeTensors tensors(step.view());
  tensors.fuse({"q", "k"}, "qk");
  tensors.fuse({"o", "nowhere"}, "on");
  EXPECT_THAT(names_of(tensors), ElementsAre("qk", "o"));
  const WholeTensor& fused = *tensors.find({Phase::pre_step, Kind::gradient, "qk"});
  EXPECT_DOUBLE_EQ(fused.norm, 5);
  EXPECT_EQ(fused.elements, 4);
  EXPECT_FALSE(fused.digest);
  EXPECT_FALSE(fused.sketch);
  tensors.fuse({"o"}, "output");
  EXPECT_TRUE(tensors.find({Phase::pre_step, Kind::gradient, "output"})->digest);
}

TEST(WholeTensors, AreRenamedAndFusedWithTheirOptimizerStates) {
  LiteralStep step(1);
  for (const char* const name : {"q: exp_avg", "k: exp_avg", "o: exp_avg"}) {
    step.whole(0, name, {3, 4}, Kind::optimizer_state, Phase::post_step);
  }
  const auto count = [&](const char* name, float steps) {
    step.part(0, name, {steps}, 0, 1, Kind::optimizer_state, Phase::post_step, 1);
  };
  count("q: step", 7);
  count("k: step", 7);
  step.whole(0, "q: exp_avg", {3, 4});  // a gradient by that name is none of q
  WholeTensors tensors(step.view());
  tensors.fuse({"q", "k"}, "qk");
  tensors.fuse({"o"}, "output");
  EXPECT_THAT(names_of(tensors),
              ElementsAre("q: exp_avg", "qk: exp_avg", "output: exp_avg", "qk: step"));
  const WholeTensorKey steps{Phase::post_step, Kind::optimizer_state, "qk: step"};
  EXPECT_EQ(tensors.find(steps)->elements, 1) << "a number of steps, as that of the whole";
  EXPECT_EQ(tensors.find(steps)->problem, "");
}

}  // namespace
}  // namespace lockstep
