#include "harness/train/module.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "reports/error.h"

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

}  // namespace
}  // namespace lockstep
