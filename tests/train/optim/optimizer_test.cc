#include "harness/train/optim/optimizer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <memory>
#include <vector>

#include "harness/train/nn/module.h"
#include "harness/train/optim/muon.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

// Sizes on both sides of a vector register, to cover its tail, too.
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

class EveryOptimizer : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Optimizer> make(std::vector<at::Tensor> parameters) const {
    return make_optimizer(GetParam(), std::move(parameters), 0.125);
  }
};

TEST_P(EveryOptimizer, LeavesAParameterWithoutAGradientAlone) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  const auto version = parameter._version();
  make({parameter})->step();
  EXPECT_TRUE(at::equal(parameter, at::full({2}, 1.0)));
  EXPECT_EQ(parameter._version(), version);
}

TEST_P(EveryOptimizer, KeepsParametersLeavesAndGradientsAsTheyWere) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  parameter.mutable_grad() = at::full({2}, 4.0);
  make({parameter})->step();
  EXPECT_FALSE(at::equal(parameter, at::full({2}, 1.0)));
  EXPECT_TRUE(parameter.is_leaf());
  EXPECT_TRUE(parameter.requires_grad());
  EXPECT_TRUE(at::equal(parameter.grad(), at::full({2}, 4.0)));
}

TEST_P(EveryOptimizer, StepsByTheLearningRateThatWasSetLast) {
  at::Tensor parameter = at::full({2}, 1.0).requires_grad_();
  parameter.mutable_grad() = at::full({2}, 4.0);
  const auto optimizer = make({parameter});
  optimizer->set_learning_rate(0);
  optimizer->step();
  EXPECT_TRUE(at::equal(parameter, at::full({2}, 1.0)));
  optimizer->set_learning_rate(1);
  optimizer->step();
  EXPECT_LT(parameter[0].item<double>(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(ByName, EveryOptimizer, testing::Values("sgd", "adamw"));

TEST(MakeOptimizer, KnowsNoOtherName) {
  try {
    make_optimizer("adam", {}, 0.1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("There is no optimizer 'adam'"));
  }
}

TEST(AdamW, StepsFirstByTheSignOfTheGradientAfterTheDecay) {
  const at::Tensor parameter = at::full({}, 2.0, at::kDouble).requires_grad_();
  parameter.mutable_grad() = at::full({}, -4.0, at::kDouble);
  AdamW({parameter}, 0.1, {.eps = 1.0, .weight_decay = 0.25}).step();
  const double decayed = 2.0 * (1 - 0.1 * 0.25);
  EXPECT_NEAR(parameter.item<double>(), decayed + 0.1 * 4.0 / (4.0 + 1.0), 1e-12);
}

// torch's C++ optimizer computes the same with single operations, which round differently.
TEST(AdamW, FollowsTorchsCppOptimizer) {
  const std::vector<at::Tensor> ours = parameters(at::kDouble);
  const std::vector<at::Tensor> theirs = parameters(at::kDouble);
  AdamW adamw(ours, 0.05);
  torch::optim::AdamW torch_adamw(theirs, torch::optim::AdamWOptions(0.05));
  for (int step = 0; step < 10; ++step) {
    adamw.step();
    torch_adamw.step();
    // The averages of a constant gradient do not depend on the betas.
    for (const auto* parameters : {&ours, &theirs}) {
      for (const at::Tensor& parameter : *parameters) parameter.grad().mul_(-0.7);
    }
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-12, 1e-12)) << i;
  }
}

TEST(AdamW, CountsAParametersStepsFromItsFirstGradient) {
  const std::vector<at::Tensor> early = parameters(at::kFloat);
  const std::vector<at::Tensor> late = parameters(at::kFloat);
  AdamW of_both({early[3], late[3]}, 0.05);
  const at::Tensor gradient = late[3].grad();
  late[3].mutable_grad() = at::Tensor();
  of_both.step();
  of_both.step();
  late[3].mutable_grad() = gradient;
  of_both.step();

  const std::vector<at::Tensor> alone = parameters(at::kFloat);
  AdamW({alone[3]}, 0.05).step();
  EXPECT_TRUE(at::equal(late[3], alone[3]));
  EXPECT_FALSE(at::equal(early[3], alone[3]));
}

/// Those of `all` that are matrices, as Muon needs them.
std::vector<at::Tensor> matrices(std::vector<at::Tensor> all) {
  std::erase_if(all, [](const at::Tensor& one) { return one.dim() != 2; });
  return all;
}

template <class One>
class StateOf : public testing::Test {};
using OptimizersWithState = testing::Types<AdamW, Muon>;
TYPED_TEST_SUITE(StateOf, OptimizersWithState);

TYPED_TEST(StateOf, GoesOnWhereItWasSaved) {
  const std::vector<at::Tensor> straight = matrices(parameters(at::kFloat));
  const std::vector<at::Tensor> resumed = matrices(parameters(at::kFloat));
  TypeParam one(straight, 0.05);
  TypeParam before(resumed, 0.05);
  for (int step = 0; step < 3; ++step) {
    one.step();
    before.step();
  }
  TypeParam after(resumed, 0.05);
  after.load_state(before.state());
  before.step();  // of a copy: it does not change what was loaded
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < resumed.size(); ++i) at::Tensor(resumed[i]).copy_(straight[i]);
  one.step();
  after.step();
  expect_equal(resumed, straight);
}

TEST(OptimizerState, IsEmptyBeforeTheFirstStep) {
  AdamW adamw(parameters(at::kFloat), 0.05);
  adamw.step();
  adamw.load_state(AdamW(parameters(at::kFloat), 0.05).state());
  EXPECT_THAT(adamw.state(), testing::Each(testing::IsEmpty()));
}

TEST(OptimizerState, OfAnotherOptimizerIsRefused) {
  AdamW adamw(parameters(at::kFloat), 0.05);
  Sgd sgd(parameters(at::kFloat), 0.05);
  adamw.step();
  EXPECT_THROW(sgd.load_state(adamw.state()), Error);
  EXPECT_THROW(adamw.load_state({}), Error);
  sgd.load_state(sgd.state());
}

}  // namespace
}  // namespace lockstep
