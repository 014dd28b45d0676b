#include "harness/train/optim/clip_grad_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

/// Parameters whose gradients hold one number each.
std::vector<at::Tensor> with_gradients(const std::vector<double>& values) {
  std::vector<at::Tensor> parameters;
  for (const double value : values) {
    parameters.push_back(at::zeros({1}).requires_grad_());
    parameters.back().mutable_grad() = at::full({1}, value);
  }
  return parameters;
}

double number_in_gradient(const at::Tensor& parameter) { return parameter.grad().item<double>(); }

TEST(ClipGradNorm, ScalesToTheCommonNormAndReturnsTheOneBefore) {
  const auto parameters = with_gradients({3, -4});
  EXPECT_EQ(clip_grad_norm(parameters, 2.5), 5);
  EXPECT_NEAR(number_in_gradient(parameters[0]), 1.5, 1e-6);
  EXPECT_NEAR(number_in_gradient(parameters[1]), -2, 1e-6);
}

TEST(ClipGradNorm, LeavesASmallerNormAsItIs) {
  const auto parameters = with_gradients({3, -4});
  EXPECT_EQ(clip_grad_norm(parameters, 5.5), 5);
  EXPECT_EQ(number_in_gradient(parameters[0]), 3);
  EXPECT_EQ(number_in_gradient(parameters[1]), -4);
}

TEST(ClipGradNorm, LeavesOutParametersWithoutAGradient) {
  auto parameters = with_gradients({3, 100, -4});
  parameters[1].mutable_grad() = at::Tensor();
  EXPECT_EQ(clip_grad_norm(parameters, 10), 5);
  EXPECT_FALSE(parameters[1].grad().defined());
  parameters[0].mutable_grad() = parameters[2].mutable_grad() = at::Tensor();
  EXPECT_EQ(clip_grad_norm(parameters, 10), 0);
}

TEST(ClipGradNorm, ChangesGradientsInPlaceAndOutsideAutograd) {
  const auto parameters = with_gradients({3, -4});
  const at::Tensor before = parameters[0].grad();
  clip_grad_norm(parameters, 1);
  EXPECT_TRUE(parameters[0].grad().is_same(before));
  EXPECT_FALSE(before.requires_grad());
}

TEST(ClipGradNorm, SpreadsANormThatIsNotFinite) {
  const auto parameters = with_gradients({3, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(clip_grad_norm(parameters, 1)));
  EXPECT_TRUE(std::isnan(number_in_gradient(parameters[0])));
}

TEST(ClipGradsWithNorm, ScalesAsIfTheNormWereTheGivenOne) {
  const auto parameters = with_gradients({3, -4});
  EXPECT_EQ(total_grad_norm(parameters).item<double>(), 5);
  clip_grads_with_norm(parameters, 2.5, total_grad_norm(parameters) * 2);
  EXPECT_NEAR(number_in_gradient(parameters[0]), 0.75, 1e-6);
  EXPECT_NEAR(number_in_gradient(parameters[1]), -1, 1e-6);
}

TEST(TotalGradNorm, IsUndefinedWithoutAGradient) {
  auto parameters = with_gradients({3});
  parameters[0].mutable_grad() = at::Tensor();
  EXPECT_FALSE(total_grad_norm(parameters).defined());
}

}  // namespace
}  // namespace lockstep
