#include "harness/verdict/parameter_order.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr const char* kApart =
    "ranks 0 and 2 have the 8 parameters of the model in different orders, and DDP pairs them by "
    "their places";

JobRecord with(std::vector<PairedParameters> orders) {
  JobRecord job;
  job.world_size = 3;
  job.parameter_orders = std::move(orders);
  return job;
}

TEST(ParameterOrder, OfRanksMayDiffer) {
  const JobRecord job = with({{"DDP", 8, "names", "abc", {0, 1}}, {"DDP", 8, "names", "bca", {2}}});
  EXPECT_EQ(other_order_in_words(job), kApart);
}

/// Twins of one architecture, models of other names on each rank, and wrappers of parts.
TEST(ParameterOrder, IsThatOfEachModel) {
  for (const JobRecord& job :
       {with({}), with({{"DDP", 8, "names", "abc", {0, 1, 2}}}),
        with({{"DDP", 8, "names", "abc", {0, 1, 2}}, {"DDP", 8, "names", "bca", {0, 1, 2}}}),
        with({{"DDP", 8, "names", "abc", {0, 1, 2}}, {"DDP", 8, "names", "bca", {1}}}),
        with({{"DDP", 8, "some", "abc", {0, 1}}, {"DDP", 8, "others", "bca", {2}}}),
        with({{"DDP", 8, "names", "abc", {0, 1}}, {"fully_shard", 8, "names", "bca", {2}}})}) {
    EXPECT_EQ(other_order_in_words(job), "");
  }
}

}  // namespace
}  // namespace lockstep
