#include "harness/train/nn/module.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "harness/train/nn/transformer.h"
#include "reports/base/error.h"

namespace lockstep {
namespace {

class DropoutByBlocks : public testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(DropoutByBlocks, HasTheMaskOfTheWhole) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t width : {1, 3, 16, 37}) {
      std::int64_t rows = 0;
      for (const std::int64_t block : GetParam()) rows += block;
      const at::Tensor input = at::ones({rows, width}, dtype);
      Dropout whole(0.3, cpu_generator(5));
      const at::Tensor expected = whole.forward(input);
      Dropout parts(0.3, cpu_generator(5));
      std::vector<at::Tensor> blocks;
      for (const at::Tensor& block : input.split_with_sizes(GetParam())) {
        blocks.push_back(parts.forward(block));
      }
      EXPECT_TRUE(at::equal(at::cat(blocks), expected)) << rows << " x " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dropout, DropoutByBlocks,
                         testing::Values(std::vector<std::int64_t>{1, 1, 1, 1},
                                         std::vector<std::int64_t>{1, 16, 2},
                                         std::vector<std::int64_t>{15, 17},
                                         std::vector<std::int64_t>{64, 1, 300}));

TEST(Dropout, ScalesWhatItKeeps) {
  Dropout dropout(0.75, cpu_generator(5));
  const at::Tensor output = dropout.forward(at::ones({100, 100}));
  EXPECT_TRUE(at::equal(output.eq(0).logical_or(output.eq(4)), at::ones({100, 100}, at::kBool)));
  EXPECT_NEAR(output.eq(0).sum().item<double>(), 7500, 150);
}

TEST(Dropout, GivesTheGradientItsMask) {
  Dropout dropout(0.5, cpu_generator(5));
  const at::Tensor input = at::ones({8, 8}).requires_grad_();
  const at::Tensor output = dropout.forward(input);
  output.sum().backward();
  EXPECT_TRUE(at::equal(input.grad(), output.detach()));
}

TEST(Dropout, DoesNotDependOnStridesOrDtype) {
  Dropout dropout(0.5, cpu_generator(5));
  Dropout again(0.5, cpu_generator(5));
  Dropout half(0.5, cpu_generator(5));
  const at::Tensor output = dropout.forward(at::ones({5, 7}));
  EXPECT_TRUE(at::equal(again.forward(at::ones({7, 5}).t()), output));
  EXPECT_TRUE(at::equal(half.forward(at::ones({5, 7}, at::kBFloat16)), output.to(at::kBFloat16)));
}

TEST(Dropout, IsInactiveInEvaluationAndDrawsNothingThere) {
  at::Generator generator = cpu_generator(5);
  const at::Tensor before = generator.get_state();
  Dropout dropout(0.5, generator);
  dropout.train(false);
  const at::Tensor input = at::ones({4});
  EXPECT_TRUE(dropout.forward(input).is_same(input));
  Dropout none(0, generator);
  EXPECT_TRUE(none.forward(input).is_same(input));
  EXPECT_TRUE(at::equal(generator.get_state(), before));
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  EXPECT_THROW(Dropout(1, cpu_generator(5)), Error);
  EXPECT_THROW(Dropout(-0.1, cpu_generator(5)), Error);
}

TEST(Module, RunsItsPartsWhereTheyAreToldTo) {
  open_virtual_devices({.count = 1});
  const at::Device device = virtual_device(0);
  Mlp mlp(4, 8, cpu_generator(1));
  mlp.to(device);
  for (const Module::Part& part : mlp.children()) part.module->run_on(device, part.name);
  EXPECT_EQ(mlp(at::ones({2, 4})).device(), device) << "the input follows";
}

TEST(Module, IsMovedInPlace) {
  open_virtual_devices({.count = 1});
  BatchNorm1d norm(3);
  const at::Tensor weight = norm.parameters().front();
  const at::Tensor mean = norm.buffers().front();
  norm.to(virtual_device(0));
  EXPECT_EQ(weight.device(), virtual_device(0));
  EXPECT_EQ(mean.device(), virtual_device(0));
  EXPECT_TRUE(weight.requires_grad());
}

TEST(Module, HasItsOwnTensorsApartFromItsChildrens) {
  const Mlp mlp(4, 8, cpu_generator(1));
  EXPECT_TRUE(mlp.own_tensors().empty());
  std::vector<std::string> names;
  for (const Module::Part& part : mlp.children()) names.push_back(part.name);
  EXPECT_THAT(names, testing::ElementsAre("up", "down"));
  EXPECT_EQ(mlp.children().front().module->own_tensors().size(), 2U);
  EXPECT_EQ(BatchNorm1d(3).own_tensors().size(), 5U) << "parameters and buffers";
}

TEST(Module, IsCalledThroughAllThatWrapsItsCallsTheLastOneFirst) {
  struct Same : Module {
    at::Tensor forward(const at::Tensor& input) override { return input; }
  };
  Same module;
  const auto digit = [](int value) {
    return [value](const at::Tensor& input, const Module::Forward& forward) {
      return forward(input * 10 + value) * 100;
    };
  };
  module.wrap_calls(digit(1));
  module.wrap_calls(digit(2));
  EXPECT_EQ(module(at::ones({1})).item().toLong(), 1210000);
  EXPECT_EQ(module.forward(at::ones({1})).item().toLong(), 1) << "nothing is around forward";
}

TEST(Module, SaysWhichPartRanOutOfMemory) {
  class Greedy : public Module {
   public:
    at::Tensor forward(const at::Tensor&) override {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory");
    }
  };
  Greedy part;
  const auto run = [&] { return part(at::ones({1})); };
  EXPECT_THAT(run, testing::ThrowsMessage<c10::OutOfMemoryError>(
                       testing::Not(testing::HasSubstr("while module"))));
  part.run_on(at::kCPU, "language.head");
  EXPECT_THAT(run, testing::ThrowsMessage<c10::OutOfMemoryError>(
                       testing::HasSubstr("while module 'language.head' ran on cpu")));
}

}  // namespace
}  // namespace lockstep
