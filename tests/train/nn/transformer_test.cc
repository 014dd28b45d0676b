#include "harness/train/nn/transformer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "harness/train/optim/optimizer.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

at::Tensor loss_of(Module& model, std::uint64_t seed = 1) {
  const at::Tensor targets = at::randint(4, {16}, cpu_generator(seed), at::kLong);
  return at::cross_entropy_loss(model.forward(normal({16, 64}, seed)), targets);
}

TEST(LayerNorm, GivesEveryTokenMeanZeroAndDeviationOne) {
  LayerNorm norm(8);
  const at::Tensor output = norm.forward(normal({3, 8}, 1) * 5 + 2);
  EXPECT_TRUE(at::allclose(output.mean(-1), at::zeros({3}), 0, 1e-6));
  EXPECT_TRUE(at::allclose(output.pow(2).mean(-1), at::ones({3}), 0, 1e-5));
}

TEST(SelfAttention, DoesNotKnowTheOrderOfTheTokens) {
  SelfAttention attention(12, 3, cpu_generator(5));
  const at::Tensor tokens = normal({2, 4, 12}, 1);
  const at::Tensor order = at::tensor({2, 0, 3, 1});
  const at::Tensor output = attention.forward(tokens);
  EXPECT_TRUE(at::allclose(attention.forward(tokens.index_select(1, order)),
                           output.index_select(1, order), 0, 1e-6));
}

TEST(SelfAttention, MixesTokensOfOneSampleOnly) {
  SelfAttention attention(12, 3, cpu_generator(5));
  const at::Tensor tokens = normal({2, 4, 12}, 1).requires_grad_();
  attention.forward(tokens)[0][0].sum().backward();
  EXPECT_FALSE(at::equal(tokens.grad()[0][3], at::zeros({12})));
  EXPECT_TRUE(at::equal(tokens.grad()[1], at::zeros({4, 12})));
}

TEST(SelfAttention, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THROW(SelfAttention(12, 5, cpu_generator(5)), Error);
  EXPECT_THROW(SelfAttention(12, 0, cpu_generator(5)), Error);
}

TEST(TimeSeriesTransformer, NamesItsParametersAsTorchWould) {
  const TimeSeriesTransformer model({.blocks = 1}, cpu_generator(5));
  std::vector<std::string> names;
  for (const NamedTensor& entry : model.named_parameters()) names.push_back(entry.name);
  EXPECT_THAT(
      names, ElementsAre("position", "embedding.weight", "embedding.bias",
                         "blocks.0.attention_norm.weight", "blocks.0.attention_norm.bias",
                         "blocks.0.attention.in_projection.weight",
                         "blocks.0.attention.in_projection.bias",
                         "blocks.0.attention.out_projection.weight",
                         "blocks.0.attention.out_projection.bias", "blocks.0.mlp_norm.weight",
                         "blocks.0.mlp_norm.bias", "blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias",
                         "blocks.0.mlp.down.weight", "blocks.0.mlp.down.bias", "norm.weight",
                         "norm.bias", "head.weight", "head.bias"));
}

TEST(TimeSeriesTransformer, GivesLogitsOfEverySeries) {
  TimeSeriesTransformer model({.length = 12, .patch = 3, .classes = 7}, cpu_generator(5));
  const at::Tensor series = normal({5, 12}, 1);
  const at::Tensor logits = model.forward(series);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({5, 7}));
  EXPECT_TRUE(at::allclose(model.forward(series.narrow(0, 3, 1)), logits.narrow(0, 3, 1), 0, 1e-6));
}

TEST(TimeSeriesTransformer, KnowsTheOrderOfThePatches) {
  TimeSeriesTransformer model({}, cpu_generator(5));
  const at::Tensor series = normal({1, 64}, 1);
  EXPECT_FALSE(at::allclose(model.forward(series), model.forward(series.roll(8, -1)), 0, 1e-6));
}

TEST(TimeSeriesTransformer, IsDrawnFromItsGeneratorAlone) {
  const at::Tensor global = at::detail::getDefaultCPUGenerator().get_state();
  const auto some = TimeSeriesTransformer({}, cpu_generator(5)).parameters();
  const auto same = TimeSeriesTransformer({}, cpu_generator(5)).parameters();
  const auto other = TimeSeriesTransformer({}, cpu_generator(6)).parameters();
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(at::equal(some[i], same[i])) << i;
  EXPECT_FALSE(at::equal(some[0], other[0]));
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), global));
}

TEST(TimeSeriesTransformer, GivesEveryParameterTheSameGradientEachTime) {
  TimeSeriesTransformer model({}, cpu_generator(5));
  std::vector<at::Tensor> first;
  loss_of(model).backward();
  for (const at::Tensor& parameter : model.parameters()) first.push_back(parameter.grad());
  model.zero_grad();
  loss_of(model).backward();
  const auto named = model.named_parameters();
  for (std::size_t i = 0; i < named.size(); ++i) {
    ASSERT_TRUE(first[i].defined()) << named[i].name;
    EXPECT_GT(first[i].abs().max().item<double>(), 0) << named[i].name;
    EXPECT_TRUE(at::equal(named[i].tensor.grad(), first[i])) << named[i].name;
  }
}

TEST(TimeSeriesTransformer, LearnsABatchByHeart) {
  TimeSeriesTransformer model({}, cpu_generator(5));
  AdamW optimizer(model.parameters(), 0.01);
  for (int step = 0; step < 40; ++step) {
    model.zero_grad();
    loss_of(model).backward();
    optimizer.step();
  }
  EXPECT_LT(loss_of(model).item<double>(), 0.1);
}

TEST(TimeSeriesTransformer, RefusesWhatDoesNotFit) {
  EXPECT_THROW(TimeSeriesTransformer({.length = 60}, cpu_generator(5)), Error);
  EXPECT_THROW(TimeSeriesTransformer({.patch = 0}, cpu_generator(5)), Error);
  TimeSeriesTransformer model({}, cpu_generator(5));
  EXPECT_THROW(model.forward(normal({2, 8}, 1)), c10::Error);
}

}  // namespace
}  // namespace lockstep
