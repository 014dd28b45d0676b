#include "harness/diff/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

JobRecord computing(const std::vector<Precision>& precisions) {
  JobRecord job;
  job.precisions = precisions;
  return job;
}

TEST(Precisions, AreTheCoarsestFromTheStepOnInWhichTheyWereSeen) {
  const JobRecord job = computing({{"autocast cpu", "bfloat16", 3, {1}},
                                   {"autocast cpu", "float16", 1, {0}},
                                   {"mixed precision of reduction", "float32", 1, {0}}});
  EXPECT_DOUBLE_EQ(computed_roundoff(job, 2), 1.0 / (1 << 11));
  EXPECT_DOUBLE_EQ(computed_roundoff(job, 3), 1.0 / (1 << 8));
  EXPECT_DOUBLE_EQ(computed_roundoff(computing({{"float32 matmul", "tf32", 1, {0}}}), 1),
                   1.0 / (1 << 11));
  EXPECT_EQ(computed_roundoff(computing({}), 1), 0);
  EXPECT_EQ(computed_roundoff(computing({{"autocast cpu", "of another torch", 1, {0}}}), 1), 0);
}

TEST(Precisions, DifferByOperationAndType) {
  const JobRecord none = computing({}), early = computing({{"autocast cpu", "bfloat16", 1, {0}}});
  const JobRecord late = computing({{"autocast cpu", "bfloat16", 4, {0, 1}}});
  EXPECT_THAT(differing_precisions(early, early), IsEmpty());
  EXPECT_THAT(differing_precisions(none, early),
              ElementsAre("autocast cpu is absent in A and bfloat16 in B"));
  EXPECT_THAT(differing_precisions(early, late),
              ElementsAre("autocast cpu is bfloat16 in A and bfloat16 from step 4 on in B"));
}

}  // namespace
}  // namespace lockstep
