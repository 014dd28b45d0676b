#include "harness/train/optimizer.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <vector>

#include "harness/train/module.h"

namespace lockstep {
namespace {

// Sizes on both sides of a vector register, so that its tail is met too.
std::vector<at::Tensor> parameters(at::ScalarType dtype) {
  at::Generator generator = cpu_generator(7);
  std::vector<at::Tensor> result;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, {3}, {4, 4}, {17, 31}}) {
    at::Tensor parameter = at::randn(shape, generator, dtype);
    parameter.requires_grad_();
    parameter.mutable_grad() = at::randn(shape, generator, dtype);
    result.push_back(parameter);
  }
  return result;
}

void expect_equal(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i])) << i;
}

TEST(Sgd, EqualsTorchsBitForBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const std::vector<at::Tensor> ours = parameters(dtype);
    const std::vector<at::Tensor> theirs = parameters(dtype);
    Sgd sgd(ours, 0.05);
    torch::optim::SGD torch_sgd(theirs, torch::optim::SGDOptions(0.05));
    for (int step = 0; step < 10; ++step) {
      sgd.step();
      torch_sgd.step();
    }
    expect_equal(ours, theirs);
    EXPECT_FALSE(at::equal(ours[3], parameters(dtype)[3]));
  }
}

TEST(Sgd, StepsAgainstTheGradient) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  parameter.mutable_grad() = at::full({2}, 4.0);
  Sgd({parameter}, 0.125).step();
  EXPECT_TRUE(at::equal(parameter, at::full({2}, 0.5)));
}

TEST(Sgd, LeavesAParameterWithoutAGradientAlone) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  const auto version = parameter._version();
  Sgd({parameter}, 0.125).step();
  EXPECT_TRUE(at::equal(parameter, at::full({2}, 1.0)));
  EXPECT_EQ(parameter._version(), version);
}

TEST(Sgd, KeepsParametersLeavesAndGradientsAsTheyWere) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  parameter.mutable_grad() = at::full({2}, 4.0);
  Sgd({parameter}, 0.125).step();
  EXPECT_TRUE(parameter.is_leaf());
  EXPECT_TRUE(parameter.requires_grad());
  EXPECT_TRUE(at::equal(parameter.grad(), at::full({2}, 4.0)));
}

}  // namespace
}  // namespace lockstep
