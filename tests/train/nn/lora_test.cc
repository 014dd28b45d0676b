#include "harness/train/nn/lora.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/train/nn/transformer.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Linear> linear(bool has_bias = false) {
  return std::make_shared<Linear>(6, 10, cpu_generator(5), has_bias);
}

TEST(LoraLinear, AddsTheScaledProductOfItsAdapters) {
  const auto base = linear();
  LoraLinear lora(base, {.rank = 2, .alpha = 6, .draws_b = true}, cpu_generator(6));
  const auto weights = lora.parameters();
  const at::Tensor input = normal({2, 3, 6}, 1);
  const at::Tensor merged = weights[0] + 3 * weights[2].matmul(weights[1]);
  EXPECT_TRUE(at::allclose(lora.forward(input), input.matmul(merged.t()), 0, 1e-5));
  EXPECT_FALSE(at::allclose(lora.forward(input), base->forward(input), 0, 0.01));
}

TEST(LoraLinear, LearnsItsAdaptersAlone) {
  LoraLinear lora(linear(true), {}, cpu_generator(6));
  std::vector<std::string> names, trained;
  for (const NamedTensor& entry : lora.named_parameters()) {
    names.push_back(entry.name);
    if (entry.tensor.requires_grad()) trained.push_back(entry.name);
  }
  EXPECT_THAT(names, ElementsAre("base.weight", "base.bias", "lora_a.weight", "lora_b.weight"));
  EXPECT_THAT(trained, ElementsAre("lora_a.weight", "lora_b.weight"));
  EXPECT_EQ(lora.parameters()[2].sizes(), at::IntArrayRef({4, 6}));
  EXPECT_EQ(lora.parameters()[3].sizes(), at::IntArrayRef({10, 4}));
}

TEST(LoraLinear, BeginsAsTheLayerItAdaptsAndWithoutAGradientOfItsFirstAdapter) {
  const auto base = linear();
  LoraLinear lora(base, {}, cpu_generator(6));
  const at::Tensor input = normal({3, 6}, 1);
  EXPECT_TRUE(at::equal(lora.forward(input), base->forward(input)));
  lora.forward(input).backward(at::ones({3, 10}));
  const auto weights = lora.parameters();
  EXPECT_TRUE(at::equal(weights[1].grad(), at::zeros({4, 6})));
  EXPECT_GT(weights[2].grad().abs().max().item<double>(), 0);
}

TEST(LoraLinear, HasBothGradientsWhenItsSecondAdapterIsDrawn) {
  LoraLinear lora(linear(), {.draws_b = true}, cpu_generator(6));
  lora.forward(normal({3, 6}, 1)).backward(at::ones({3, 10}));
  const auto weights = lora.parameters();
  EXPECT_FALSE(weights[0].grad().defined());
  EXPECT_GT(weights[1].grad().abs().min().item<double>(), 0);
  EXPECT_GT(weights[2].grad().abs().min().item<double>(), 0);
  EXPECT_TRUE(at::equal(weights[1], LoraLinear(linear(), {}, cpu_generator(6)).parameters()[1]));
}

TEST(LoraLinear, HasTheDtypeOfItsLayer) {
  const auto base = linear();
  base->to(at::kBFloat16);
  LoraLinear lora(base, {}, cpu_generator(6));
  for (const NamedTensor& entry : lora.named_parameters()) {
    EXPECT_EQ(entry.tensor.scalar_type(), at::kBFloat16) << entry.name;
  }
  EXPECT_EQ(lora.forward(normal({3, 6}, 1).to(at::kBFloat16)).scalar_type(), at::kBFloat16);
}

TEST(LoraLinear, RefusesARankBelowOneAndWhatHasNoWeightMatrix) {
  EXPECT_THROW(LoraLinear(linear(), {.rank = 0}, cpu_generator(6)), Error);
  EXPECT_THROW(LoraLinear(linear(), {.rank = -1}, cpu_generator(6)), Error);
  EXPECT_THROW(LoraLinear(std::make_shared<LayerNorm>(6), {}, cpu_generator(6)), Error);
}

}  // namespace
}  // namespace lockstep
