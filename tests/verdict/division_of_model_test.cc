#include "harness/verdict/division_of_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(PartsOfRanks, AreWhereDimensionsOfTheModelDivideParameters) {
  LiteralEvidence files{4};
  const auto add = [&](int rank, const std::string& name, const std::string& group) {
    files.add(rank, 1, name, {1}, {Kind::parameter, Phase::post_step, 0}).replica_group = group;
  };
  add(0, "up", "dp 0, tp 0");
  add(1, "up", "dp 0, tp 1");
  add(1, "down", "dimension 0 1");
  add(1, "norm", "mesh_dp 0");
  add(2, "experts", "fsdp 1, ep 1");
  add(3, "bias", "");
  const PartsOfRanks parts = parts_of_ranks(files.write());
  EXPECT_THAT(parts, ElementsAre(Pair(0, ElementsAre("tp 0")),
                                 Pair(1, ElementsAre("dimension 0 1", "tp 1"))));
}

TEST(PartsOfRanks, AreDividedByGroupsThatHoldOneEach) {
  const PartsOfRanks parts{{0, {"tp 0"}}, {1, {"tp 1"}}, {2, {"tp 0"}}, {3, {"tp 1"}}};
  EXPECT_TRUE(do_divide_model({{0, 2}, {1, 3}}, parts));
  EXPECT_TRUE(do_divide_model({{0}, {1}}, parts));
  EXPECT_FALSE(do_divide_model({{0, 1}, {2, 3}}, parts));
  EXPECT_FALSE(do_divide_model({{0}, {2}}, parts)) << "copies";
  EXPECT_FALSE(do_divide_model({{0, 2}}, parts));
  EXPECT_FALSE(do_divide_model({}, parts));
  EXPECT_FALSE(do_divide_model({{0}, {4}}, parts)) << "rank 4 holds no part";
}

}  // namespace
}  // namespace lockstep
