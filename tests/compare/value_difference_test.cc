#include "harness/compare/value_difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SnapshotTensor tensor_of(const std::vector<float>& values, std::vector<std::int64_t> shape,
                         DType dtype = DType::float32) {
  SnapshotTensor tensor{dtype, std::move(shape), {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

ValueDifference between(const std::vector<float>& left, const std::vector<float>& right) {
  const auto size = static_cast<std::int64_t>(left.size());
  return difference(tensor_of(left, {size}), tensor_of(right, {size}));
}

TEST(Difference, NamesTheFirstElementByItsIndex) {
  const ValueDifference found =
      difference(tensor_of({1, 2, 3, 4, 5, 6}, {2, 3}), tensor_of({1, 2, 3, 4, 0, 0}, {2, 3}));
  EXPECT_THAT(found.first->index, ElementsAre(1, 1));
  EXPECT_EQ(found.first->left_value, 5);
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.worst, 6);
}

TEST(Difference, LooksAtImaginaryParts) {
  const ValueDifference found = difference(tensor_of({1, 2}, {1}, DType::complex64),
                                           tensor_of({1, 5}, {1}, DType::complex64));
  EXPECT_EQ(found.first->left_value, 2);
  EXPECT_EQ(found.first->right_value, 5);
  EXPECT_EQ(found.worst, 3);
}

TEST(Difference, IsNoNumberWhereOneSideIsNotFinite) {
  EXPECT_TRUE(std::isnan(between({kNan}, {1}).worst));
  EXPECT_TRUE(std::isnan(between({1, 1}, {kNan, 9}).worst));
  EXPECT_TRUE(std::isnan(between({kInfinity}, {-kInfinity}).worst));
  EXPECT_EQ(between({kInfinity, kNan, 1}, {kInfinity, kNan, 3}).worst, 2);
}

TEST(Difference, ToOrOfZeroHasNoDirection) {
  EXPECT_EQ(between({0}, {2}).ratio, 0);
  EXPECT_FALSE(between({0}, {2}).cosine);
  EXPECT_FALSE(between({2}, {0}).ratio);
  EXPECT_EQ(between({2}, {-4}).cosine, -1);
}

}  // namespace
}  // namespace lockstep
