#include "harness/train/nn/quantised_linear.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/train/nn/lora.h"
#include "harness/train/nn/transformer.h"
#include "harness/train/nn/vision_language_model.h"
#include "harness/train/placement/device_map.h"
#include "harness/train/placement/quantised_weights.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

Linear layer_of(const at::Tensor& weight) {
  Linear layer(weight.size(1), weight.size(0), cpu_generator(5), /*has_bias=*/false);
  layer.parameters().front().detach().copy_(weight);
  return layer;
}

TEST(QuantisedLinear, RoundsEachRowToMultiplesOfItsScale) {
  // The second row in steps of 2, 2.5 of them and 3.5 of them on a tie; the third has no scale.
  const Linear layer =
      layer_of(at::tensor({127., -63.4, 0., 254., 5., 7., 0., 0., 0.}, at::kFloat).reshape({3, 3}));
  const QuantisedLinear quantised(layer);
  const auto own = quantised.own_tensors();
  EXPECT_THAT(names_of(own), ElementsAre("weight", "scale"));
  EXPECT_EQ(own[0].tensor.scalar_type(), at::kChar);
  EXPECT_TRUE(at::equal(
      own[0].tensor,
      at::tensor({127, -63, 0, 127, 2, 4, 0, 0, 0}, at::kInt).to(at::kChar).reshape({3, 3})));
  EXPECT_TRUE(at::equal(own[1].tensor, at::tensor({1., 2., 0.}, at::kFloat).reshape({3, 1})));
  EXPECT_TRUE(at::equal(
      quantised.dequantised(),
      at::tensor({127., -63., 0., 254., 4., 8., 0., 0., 0.}, at::kFloat).reshape({3, 3})));
}

TEST(QuantisedLinear, MultipliesByTheRoundedWeight) {
  const Linear layer(6, 10, cpu_generator(5));
  QuantisedLinear quantised(layer);
  const at::Tensor input = normal({2, 3, 6}, 1);
  const at::Tensor bias = layer.parameters()[1].detach();
  EXPECT_TRUE(at::equal(quantised(input), at::linear(input, quantised.dequantised(), bias)));
  const at::Tensor weight = layer.parameters()[0].detach();
  const double half_a_step = weight.abs().max().item<double>() / 254;
  EXPECT_LE((quantised.dequantised() - weight).abs().max().item<double>(), half_a_step * 1.001);
  EXPECT_FALSE(at::equal(quantised.dequantised(), weight));
}

TEST(QuantisedLinear, HasAGradientOfItsInputAlone) {
  QuantisedLinear quantised(Linear(6, 10, cpu_generator(5)));
  EXPECT_TRUE(quantised.parameters().empty());
  const at::Tensor input = normal({3, 6}, 1).requires_grad_();
  quantised(input).backward(at::ones({3, 10}));
  EXPECT_TRUE(at::equal(input.grad(), at::ones({3, 10}).matmul(quantised.dequantised())));
  for (const NamedTensor& own : quantised.own_tensors()) {
    EXPECT_FALSE(own.tensor.requires_grad()) << own.name;
  }
}

TEST(QuantisedLinear, MultipliesInTheDtypeOfItsInput) {
  QuantisedLinear quantised(Linear(6, 10, cpu_generator(5)));
  EXPECT_EQ(quantised(normal({3, 6}, 1).to(at::kBFloat16)).scalar_type(), at::kBFloat16);
}

TEST(QuantisedLinear, RefusesWhatHasNoWeightMatrix) {
  EXPECT_THROW(QuantisedLinear(LayerNorm(6)), Error);
}

TEST(LoraLinear, AdaptsAQuantisedLayer) {
  const auto base = std::make_shared<QuantisedLinear>(Linear(6, 10, cpu_generator(5)));
  LoraLinear lora(base, {.draws_b = true}, cpu_generator(6));
  const auto parameters = lora.named_parameters();
  EXPECT_THAT(names_of(parameters), ElementsAre("lora_a.weight", "lora_b.weight"));
  EXPECT_EQ(parameters[0].tensor.sizes(), at::IntArrayRef({4, 6}));
  EXPECT_EQ(parameters[1].tensor.sizes(), at::IntArrayRef({10, 4}));
  EXPECT_EQ(parameters[0].tensor.scalar_type(), at::kFloat);
  lora(normal({3, 6}, 1)).backward(at::ones({3, 10}));
  for (const NamedTensor& parameter : parameters) {
    EXPECT_GT(parameter.tensor.grad().abs().max().item<double>(), 0) << parameter.name;
  }
}

TEST(LoraLinear, QuantisesItsLayerWhenAsked) {
  const auto layer = std::make_shared<Linear>(6, 10, cpu_generator(5));
  LoraLinear lora(layer, {.quantises_base = true}, cpu_generator(6));
  EXPECT_THAT(names_of(lora.named_buffers()),
              ElementsAre("base.weight", "base.scale", "base.bias"));
  const at::Tensor input = normal({3, 6}, 1);
  EXPECT_TRUE(at::equal(lora(input), QuantisedLinear(*layer)(input)));
}

TEST(CheckQuantisedWeights, NamesThePartThatIsElsewhere) {
  const VisionLanguageModel model({.lora = LoraOptions{.quantises_base = true}}, cpu_generator(5));
  EXPECT_NO_THROW(check_quantised_weights(model, at::kCPU));
  EXPECT_NO_THROW(check_quantised_weights(VisionLanguageModel({}, cpu_generator(5)), at::kMeta));
  try {
    check_quantised_weights(model, at::Device("cuda:1"));
    FAIL() << "nothing was refused";
  } catch (const Refusal& error) {
    EXPECT_STREQ(error.what(),
                 "Lockstep's own check: the quantised weights of "
                 "'language.blocks.0.attention.query.base' are on cpu, and this rank trains on "
                 "cuda:1. Load them there, with the device map {\"\": \"cuda:1\"}. accelerate: "
                 "\"You can't train a model that has been loaded in 8-bit or 4-bit precision on a "
                 "different device than the one you're training on.\"");
  }
}

}  // namespace
}  // namespace lockstep
