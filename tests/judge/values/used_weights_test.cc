// Weights of forward passes next to what optimizers hold: `used_weights_in`.

#include "harness/judge/values/used_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/judge/literal_evidence.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

/// One step of ranks that use a weight `w` of four numbers, and hold halves of it.
class Gathering {
 public:
  explicit Gathering(int ranks) : files_(ranks) {}

  void use(int rank, const std::vector<float>& values) {
    files_.add(rank, 1, "w", values, {Kind::used_weight, Phase::pre_forward, 0}).replica_group =
        group_of_one(rank);
  }

  Observation& hold(int rank, const std::vector<float>& values, std::int64_t offset) {
    Observation& part = files_.add_shard(rank, 1, "w", values, {4}, {offset},
                                         {static_cast<std::int64_t>(values.size())});
    part.kind = Kind::held_weight;
    part.phase = Phase::pre_forward;
    part.replica_group = "part " + std::to_string(offset);
    return part;
  }

  LiteralEvidence& files() { return files_; }

  /// Of "w", if it was compared.
  std::vector<UsedWeight> found() const {
    std::vector<UsedWeight> weights;
    for (const auto& [name, weight] : used_weights_in(*files_.write().at(1))) {
      weights.push_back(weight);
    }
    return weights;
  }

 private:
  LiteralEvidence files_;
};

TEST(UsedWeights, AreTheHeldOnesIfTheirBitsAre) {
  Gathering right(2);
  for (const int rank : {0, 1}) right.use(rank, {1, 2, 3, 4});
  right.hold(0, {1, 2}, 0);
  right.hold(1, {3, 4}, 2);
  EXPECT_THAT(right.found(), ElementsAre(Field(&UsedWeight::others, IsEmpty())));

  Gathering stale(2);
  for (const int rank : {0, 1}) stale.use(rank, {1, 2, 3, 4});
  stale.hold(0, {1, 2}, 0);
  stale.hold(1, {3, 4.25F}, 2);
  EXPECT_THAT(stale.found(), ElementsAre(Field(&UsedWeight::others, ElementsAre(0, 1))));

  Gathering one(2);
  one.use(0, {1, 2, 3, 4});
  one.use(1, {1, 2, 3, 5});
  one.hold(0, {1, 2}, 0);
  one.hold(1, {3, 4}, 2);
  EXPECT_THAT(one.found(), ElementsAre(Field(&UsedWeight::others, ElementsAre(1))));
}

/// Ranks 0,1 and 2,3 hold a copy each.
TEST(UsedWeights, AreThoseOfTheCopyThatTheRankHoldsAPartOf) {
  Gathering pairs(4);
  for (const int rank : {0, 1}) pairs.use(rank, {1, 2, 3, 4});
  for (const int rank : {2, 3}) pairs.use(rank, {1, 2, 3, 5});
  for (const int rank : {0, 2}) pairs.hold(rank, {1, 2}, 0);
  pairs.hold(1, {3, 4}, 2);
  pairs.hold(3, {3, 5}, 2);
  EXPECT_THAT(pairs.found(), ElementsAre(Field(&UsedWeight::others, IsEmpty())));
}

TEST(UsedWeights, AreNotComparedWhereAPartOrAValueIsUnknown) {
  Gathering missing(2);
  for (const int rank : {0, 1}) missing.use(rank, {1, 2, 3, 4});
  missing.hold(0, {1, 2}, 0);
  EXPECT_THAT(missing.found(), IsEmpty());

  Gathering in_another_type(2);
  for (const int rank : {0, 1}) in_another_type.use(rank, {1, 2, 3, 4});
  for (const int rank : {0, 1}) in_another_type.hold(rank, {1, 2}, 2 * rank).dtype = "int32";
  for (const int rank : {0, 1}) in_another_type.files().lose_values(rank, 1);
  EXPECT_THAT(in_another_type.found(), IsEmpty());

  Gathering by_nobody(2);
  by_nobody.use(1, {1, 2, 3, 4});
  EXPECT_THAT(by_nobody.found(), IsEmpty());
}

}  // namespace
}  // namespace lockstep
