#include "harness/train/optim/mixed_precision.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "reports/base/error.h"

namespace lockstep {
namespace {

/// A model in float32 and its computing copy in bfloat16, drawn from other seeds.
struct Mixed {
  Mixed() {
    low.to(at::kBFloat16);
    compute_with(low, master);
  }

  at::Tensor loss(std::uint64_t seed) {
    return low(at::randn({6, 4}, cpu_generator(seed), at::kFloat).to(at::kBFloat16)).pow(2).mean();
  }

  Linear master{4, 3, cpu_generator(1)};
  Linear low{4, 3, cpu_generator(2)};
};

TEST(MixedPrecision, ComputesWithTheMastersRoundedValues) {
  Mixed mixed;
  Linear plain(4, 3, cpu_generator(1));
  plain.to(at::kBFloat16);
  const at::Tensor input = at::randn({6, 4}, cpu_generator(5), at::kFloat).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(mixed.low(input), plain(input)));
  mixed.master.weight().detach().mul_(2);
  plain.weight().detach().mul_(2);
  EXPECT_TRUE(at::equal(mixed.low(input), plain(input))) << "as they are at the call";
}

TEST(MixedPrecision, GivesTheMasterTheGradientsInItsOwnDType) {
  Mixed mixed;
  mixed.loss(5).backward();
  Linear plain(4, 3, cpu_generator(1));
  plain.to(at::kBFloat16);
  plain(at::randn({6, 4}, cpu_generator(5), at::kFloat).to(at::kBFloat16)).pow(2).mean().backward();
  for (std::size_t i = 0; i < 2; ++i) {
    const at::Tensor gradient = mixed.master.parameters()[i].grad();
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::equal(gradient, plain.parameters()[i].grad().to(at::kFloat)));
  }
}

TEST(MixedPrecision, AddsUpInTheMastersDType) {
  Mixed mixed;
  Mixed first;
  Mixed second;
  first.loss(5).backward();
  second.loss(6).backward();
  mixed.loss(5).backward();
  mixed.loss(6).backward();
  bool is_finer_than_bfloat16 = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const at::Tensor sum = mixed.master.parameters()[i].grad();
    EXPECT_TRUE(
        at::equal(sum, first.master.parameters()[i].grad() + second.master.parameters()[i].grad()));
    is_finer_than_bfloat16 |= !at::equal(sum, sum.to(at::kBFloat16).to(at::kFloat));
  }
  EXPECT_TRUE(is_finer_than_bfloat16);
}

TEST(MixedPrecision, LetsSeveralCallsShareABackward) {
  Mixed mixed;
  (mixed.loss(5) + mixed.loss(6)).backward();
  Mixed apart;
  apart.loss(5).backward();
  apart.loss(6).backward();
  for (std::size_t i = 0; i < 2; ++i) {
    const at::Tensor expected = apart.master.parameters()[i].grad();
    const at::Tensor difference = mixed.master.parameters()[i].grad() - expected;
    EXPECT_LE(difference.norm().item<double>(), 0x1p-7 * expected.norm().item<double>());
  }
}

TEST(MixedPrecision, RefusesAModelOfOtherParameters) {
  Linear master(4, 3, cpu_generator(1));
  Linear low(4, 3, cpu_generator(1), /*has_bias=*/false);
  EXPECT_THROW(compute_with(low, master), Error);
}

TEST(MixedPrecision, LeavesNoGradientsThatAddUpWhereTheyAreNotAskedFor) {
  Mixed mixed;
  mixed.loss(5).backward();
  EXPECT_EQ(mixed.low.weight().grad().abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace lockstep
