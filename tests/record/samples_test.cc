#include "harness/record/samples.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

Digest of_samples(const std::vector<float>& values, std::int64_t count) {
  return digest_of_samples(std::as_bytes(std::span(values)), count);
}

TEST(DigestOfSamples, AddsUpOverBatchesInAnyOrder) {
  Digest sum = of_samples({5, 6}, 1);
  sum += of_samples({1, 2, 3, 4}, 2);
  EXPECT_EQ(sum, of_samples({1, 2, 3, 4, 5, 6}, 3));
  EXPECT_EQ(of_samples({3, 4, 1, 2}, 2), of_samples({1, 2, 3, 4}, 2));
}

TEST(DigestOfSamples, DependsOnWhatIsOneSample) {
  EXPECT_NE(of_samples({1, 2, 3, 4}, 2), of_samples({1, 3, 2, 4}, 2));
  EXPECT_NE(of_samples({1, 2, 3, 4}, 2), of_samples({1, 2, 3, 4}, 4));
  EXPECT_NE(of_samples({1, 2, 3, 4}, 2), of_samples({1, 4, 3, 2}, 2));
}

/// Twice the same sample is not the same as once, and two pairs do not cancel out.
TEST(DigestOfSamples, CountsEqualSamples) {
  EXPECT_NE(of_samples({1, 1}, 2), of_samples({1}, 1));
  EXPECT_NE(of_samples({1, 1, 2, 2}, 4), of_samples({3, 3, 4, 4}, 4));
  EXPECT_EQ(of_samples({}, 0), Digest());
}

}  // namespace
}  // namespace lockstep
