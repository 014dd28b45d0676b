#include "harness/train/nn/vision_language_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/train/optim/optimizer.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr std::int64_t kPatches = 4;

at::Tensor text(std::int64_t tokens, std::uint64_t seed = 2) {
  return at::randint(32, {3, tokens}, cpu_generator(seed), at::kLong);
}

at::Tensor logits_of(VisionLanguageModel& model) {
  const at::ScalarType dtype = model.parameters().front().scalar_type();
  return model.forward(normal({3, 1, 8, 8}, 1).to(dtype), text(5));
}

at::Tensor loss_of(VisionLanguageModel& model) {
  return next_token_loss(logits_of(model), text(5));
}

std::map<std::string, at::Tensor> gradients_of(VisionLanguageModel& model) {
  model.zero_grad();
  loss_of(model).backward();
  std::map<std::string, at::Tensor> gradients;
  for (const NamedTensor& entry : model.named_parameters()) {
    if (entry.tensor.requires_grad()) gradients[entry.name] = entry.tensor.grad();
  }
  return gradients;
}

std::vector<std::string> trained(const Module& module) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : module.named_parameters()) {
    if (entry.tensor.requires_grad()) names.push_back(entry.name);
  }
  return names;
}

/// All combinations of trained and shared parts.
std::vector<VisionLanguageOptions> variants() {
  std::vector<VisionLanguageOptions> all;
  for (const bool tied : {true, false}) {
    for (const bool shared : {false, true}) {
      all.push_back({.tied_head = tied, .shared_blocks = shared});
      all.push_back(
          {.tied_head = tied, .shared_blocks = shared, .lora = LoraOptions{.draws_b = true}});
    }
  }
  return all;
}

TEST(RmsNorm, GivesEveryTokenAMeanSquareOfOne) {
  RmsNorm norm(8);
  const at::Tensor output = norm.forward(normal({3, 8}, 1) * 5 + 2);
  EXPECT_TRUE(at::allclose(output.pow(2).mean(-1), at::full({3}, 1.0), 0, 1e-5));
  EXPECT_FALSE(at::allclose(output.mean(-1), at::zeros({3}), 0, 0.1));
}

TEST(CausalSelfAttention, SeesNoLaterToken) {
  CausalSelfAttention attention(12, 3, cpu_generator(5));
  const at::Tensor tokens = normal({2, 4, 12}, 1).requires_grad_();
  attention.forward(tokens)[0][1].sum().backward();
  EXPECT_GT(tokens.grad()[0][0].abs().max().item<double>(), 0);
  EXPECT_GT(tokens.grad()[0][1].abs().max().item<double>(), 0);
  EXPECT_TRUE(at::equal(tokens.grad()[0].narrow(0, 2, 2), at::zeros({2, 12})));
  EXPECT_TRUE(at::equal(tokens.grad()[1], at::zeros({4, 12})));
}

TEST(CausalSelfAttention, RefusesHeadsThatDoNotDivideTheWidth) {
  EXPECT_THROW(CausalSelfAttention(12, 5, cpu_generator(5)), Error);
}

TEST(VisionLanguageModel, NamesItsParametersInOrder) {
  const VisionLanguageModel model({.vision_blocks = 1, .language_blocks = 1, .tied_head = false},
                                  cpu_generator(5));
  EXPECT_THAT(names_of(model.named_parameters()),
              ElementsAreArray({"vision.position",
                                "vision.embedding.weight",
                                "vision.embedding.bias",
                                "vision.blocks.0.attention_norm.weight",
                                "vision.blocks.0.attention_norm.bias",
                                "vision.blocks.0.attention.in_projection.weight",
                                "vision.blocks.0.attention.in_projection.bias",
                                "vision.blocks.0.attention.out_projection.weight",
                                "vision.blocks.0.attention.out_projection.bias",
                                "vision.blocks.0.mlp_norm.weight",
                                "vision.blocks.0.mlp_norm.bias",
                                "vision.blocks.0.mlp.up.weight",
                                "vision.blocks.0.mlp.up.bias",
                                "vision.blocks.0.mlp.down.weight",
                                "vision.blocks.0.mlp.down.bias",
                                "projector.up.weight",
                                "projector.up.bias",
                                "projector.down.weight",
                                "projector.down.bias",
                                "language.position",
                                "language.embedding.weight",
                                "language.blocks.0.attention_norm.weight",
                                "language.blocks.0.attention.query.weight",
                                "language.blocks.0.attention.key.weight",
                                "language.blocks.0.attention.value.weight",
                                "language.blocks.0.attention.output.weight",
                                "language.blocks.0.mlp_norm.weight",
                                "language.blocks.0.mlp.gate.weight",
                                "language.blocks.0.mlp.up.weight",
                                "language.blocks.0.mlp.down.weight",
                                "language.norm.weight",
                                "language.head.weight"}));
}

TEST(VisionLanguageModel, GivesLogitsOfEveryToken) {
  VisionLanguageModel model({.channels = 3,
                             .height = 6,
                             .width = 4,
                             .patch = 2,
                             .vision_width = 8,
                             .vocabulary = 11,
                             .language_width = 12},
                            cpu_generator(5));
  const at::Tensor image = normal({2, 3, 6, 4}, 1);
  const at::Tensor tokens = at::arange(10).reshape({2, 5});
  const at::Tensor logits = model.forward(image, tokens);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 11, 11}));
  EXPECT_TRUE(at::allclose(model.forward(image.narrow(0, 1, 1), tokens.narrow(0, 1, 1)),
                           logits.narrow(0, 1, 1), 0, 1e-6));
}

TEST(VisionLanguageModel, CutsAnImageIntoPatchesRowByRow) {
  VisionLanguageModel model({.height = 8, .width = 12, .vision_blocks = 0}, cpu_generator(5));
  for (std::int64_t patch = 0; patch < 6; ++patch) {
    const at::Tensor image = normal({1, 1, 8, 12}, 1).requires_grad_();
    // Without vision blocks, only the causal attention mixes patches.
    model.forward(image, at::zeros({1, 1}, at::kLong))[0][patch].pow(2).sum().backward();
    const at::Tensor seen = image.grad()[0][0];
    for (std::int64_t other = 0; other < 6; ++other) {
      const at::Tensor part =
          seen.narrow(0, other / 3 * 4, 4).narrow(1, other % 3 * 4, 4).abs().max();
      EXPECT_EQ(part.item<double>() > 0, other <= patch) << other << " of " << patch;
    }
  }
}

TEST(VisionLanguageModel, ShowsTheImageToTheTextAndNoLaterTextToAToken) {
  VisionLanguageModel model({}, cpu_generator(5));
  const at::Tensor image = normal({3, 1, 8, 8}, 1);
  const at::Tensor tokens = text(5);
  const at::Tensor logits = model.forward(image, tokens);
  at::Tensor other = tokens.clone();
  other.select(1, 4).add_(1).remainder_(32);
  const at::Tensor changed = model.forward(image, other);
  EXPECT_TRUE(
      at::allclose(changed.narrow(1, 0, kPatches + 4), logits.narrow(1, 0, kPatches + 4), 0, 1e-6));
  EXPECT_FALSE(
      at::allclose(changed.select(1, kPatches + 4), logits.select(1, kPatches + 4), 0, 1e-4));
  EXPECT_FALSE(at::allclose(model.forward(-image, tokens).select(1, kPatches + 4),
                            logits.select(1, kPatches + 4), 0, 1e-6));
}

TEST(VisionLanguageModel, KnowsTheOrderOfTheTokens) {
  VisionLanguageModel model({.language_blocks = 1}, cpu_generator(5));
  const at::Tensor image = normal({3, 1, 8, 8}, 1);
  const at::Tensor tokens = text(5);
  const at::Tensor swapped = tokens.index_select(1, at::tensor({1, 0, 2, 3, 4}));
  EXPECT_FALSE(at::allclose(model.forward(image, tokens).select(1, kPatches + 4),
                            model.forward(image, swapped).select(1, kPatches + 4), 0, 1e-6));
}

TEST(VisionLanguageModel, IsDrawnFromItsGeneratorAlone) {
  const at::Tensor global = at::detail::getDefaultCPUGenerator().get_state();
  const VisionLanguageOptions options{.lora = LoraOptions{.draws_b = true}};
  const auto some = VisionLanguageModel(options, cpu_generator(5)).parameters();
  const auto same = VisionLanguageModel(options, cpu_generator(5)).parameters();
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_TRUE(at::equal(some[i], same[i])) << i;
  EXPECT_FALSE(at::equal(some[0], VisionLanguageModel(options, cpu_generator(6)).parameters()[0]));
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), global));
}

TEST(VisionLanguageModel, HasOneTensorForEmbeddingAndTiedHead) {
  VisionLanguageModel tied({}, cpu_generator(5)), untied({.tied_head = false}, cpu_generator(5));
  auto names = names_of(untied.named_parameters());
  ASSERT_EQ(names.back(), "language.head.weight");
  names.pop_back();
  EXPECT_EQ(names_of(tied.named_parameters()), names);

  // The embedding of a token that occurs in no text: only the head gives it a gradient.
  const at::Tensor absent = at::zeros({3, 5}, at::kLong);
  for (VisionLanguageModel* model : {&tied, &untied}) {
    next_token_loss(model->forward(normal({3, 1, 8, 8}, 1), absent), absent).backward();
    for (const NamedTensor& entry : model->named_parameters()) {
      if (entry.name != "language.embedding.weight") continue;
      EXPECT_EQ(entry.tensor.grad()[7].abs().max().item<double>() > 0, model == &tied);
      EXPECT_GT(entry.tensor.grad()[0].abs().max().item<double>(), 0);
    }
  }
}

TEST(VisionLanguageModel, ListsASharedBlockOnce) {
  const VisionLanguageModel shared({.language_blocks = 3, .shared_blocks = true}, cpu_generator(5));
  const VisionLanguageModel single({.language_blocks = 1}, cpu_generator(5));
  EXPECT_EQ(names_of(shared.named_parameters()), names_of(single.named_parameters()));
}

TEST(VisionLanguageModel, FreezesAllButTheAdapters) {
  const VisionLanguageModel model({.language_blocks = 1, .lora = LoraOptions{}}, cpu_generator(5));
  EXPECT_THAT(trained(model), ElementsAreArray({"language.blocks.0.attention.query.lora_a.weight",
                                                "language.blocks.0.attention.query.lora_b.weight",
                                                "language.blocks.0.attention.key.lora_a.weight",
                                                "language.blocks.0.attention.key.lora_b.weight",
                                                "language.blocks.0.attention.value.lora_a.weight",
                                                "language.blocks.0.attention.value.lora_b.weight",
                                                "language.blocks.0.attention.output.lora_a.weight",
                                                "language.blocks.0.attention.output.lora_b.weight",
                                                "language.blocks.0.mlp.gate.lora_a.weight",
                                                "language.blocks.0.mlp.gate.lora_b.weight",
                                                "language.blocks.0.mlp.up.lora_a.weight",
                                                "language.blocks.0.mlp.up.lora_b.weight",
                                                "language.blocks.0.mlp.down.lora_a.weight",
                                                "language.blocks.0.mlp.down.lora_b.weight"}));
}

TEST(VisionLanguageModel, BeginsWithAdaptersAsWithout) {
  VisionLanguageModel plain({}, cpu_generator(5));
  VisionLanguageModel adapted({.lora = LoraOptions{}}, cpu_generator(5));
  EXPECT_TRUE(at::equal(logits_of(adapted), logits_of(plain)));
  VisionLanguageModel drawn({.lora = LoraOptions{.draws_b = true}}, cpu_generator(5));
  EXPECT_FALSE(at::allclose(logits_of(drawn), logits_of(plain), 0, 1e-4));
}

TEST(VisionLanguageModel, GivesEveryTrainedParameterTheSameGradientEachTime) {
  for (const VisionLanguageOptions& options : variants()) {
    VisionLanguageModel model(options, cpu_generator(5));
    const auto first = gradients_of(model), second = gradients_of(model);
    EXPECT_EQ(first.size(), trained(model).size());
    for (const auto& [name, gradient] : first) {
      ASSERT_TRUE(gradient.defined()) << name;
      EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
      EXPECT_TRUE(at::equal(gradient, second.at(name))) << name;
    }
  }
}

TEST(VisionLanguageModel, ComputesInTheDtypeItIsBroughtTo) {
  for (const VisionLanguageOptions& options : variants()) {
    VisionLanguageModel model(options, cpu_generator(5));
    model.to(at::kDouble);
    const auto exact = gradients_of(model);
    model.to(at::kBFloat16);
    EXPECT_EQ(loss_of(model).scalar_type(), at::kBFloat16);
    double error = 0, size = 0;
    for (const auto& [name, gradient] : gradients_of(model)) {
      const at::Tensor& expected = exact.at(name);
      ASSERT_EQ(expected.scalar_type(), at::kDouble) << name;
      ASSERT_EQ(gradient.scalar_type(), at::kBFloat16) << name;
      error += (gradient.to(at::kDouble) - expected).pow(2).sum().item<double>();
      size += expected.pow(2).sum().item<double>();
    }
    EXPECT_LT(error / size, 0.1 * 0.1);
  }
}

TEST(VisionLanguageModel, PassesItsActivationOn) {
  VisionLanguageModel model({.activation = GateActivation::identity}, cpu_generator(5));
  VisionLanguageModel silu({}, cpu_generator(5));
  EXPECT_FALSE(at::allclose(logits_of(model), logits_of(silu), 0, 1e-4));
}

TEST(VisionLanguageModel, LetsCallersRunEveryBlockAndEveryMlp) {
  for (const VisionLanguageOptions& options : variants()) {
    VisionLanguageModel model(options, cpu_generator(5));
    const at::Tensor plain_logits = logits_of(model);
    const auto plain = gradients_of(model);
    std::vector<Module*> blocks, mlps;
    int inside = 0;
    model.run_blocks_with([&](Module& block, const at::Tensor& input) {
      blocks.push_back(&block);
      ++inside;
      at::Tensor output = block.forward(input);
      --inside;
      return output;
    });
    model.run_mlps_with([&](Module& mlp, const at::Tensor& input) {
      EXPECT_EQ(inside, 1);
      mlps.push_back(&mlp);
      return mlp.forward(input);
    });
    EXPECT_TRUE(at::equal(logits_of(model), plain_logits));
    ASSERT_EQ(blocks.size(), 4U);
    ASSERT_EQ(mlps.size(), 2U);
    EXPECT_NE(blocks[0], blocks[1]);
    EXPECT_NE(blocks[1], blocks[2]);
    EXPECT_EQ(blocks[2] == blocks[3], options.shared_blocks);
    EXPECT_EQ(mlps[0] == mlps[1], options.shared_blocks);
    EXPECT_NE(dynamic_cast<LanguageBlock*>(blocks[3]), nullptr);
    EXPECT_NE(dynamic_cast<SwiGlu*>(mlps[0]), nullptr);
    for (const auto& [name, gradient] : gradients_of(model)) {
      EXPECT_TRUE(at::equal(gradient, plain.at(name))) << name;
    }
  }
}

TEST(VisionLanguageModel, NeedsNoGradientBelowItsFirstAdapters) {
  for (const bool adapts : {false, true}) {
    VisionLanguageModel model({.lora = adapts ? std::optional(LoraOptions{}) : std::nullopt},
                              cpu_generator(5));
    std::vector<bool> requires_gradient;
    model.run_blocks_with([&](Module& block, const at::Tensor& input) {
      requires_gradient.push_back(input.requires_grad());
      return block.forward(input);
    });
    logits_of(model);
    EXPECT_THAT(requires_gradient, ElementsAre(!adapts, !adapts, !adapts, true));
  }
}

TEST(VisionLanguageModel, UsesWhatItsCallersReturn) {
  VisionLanguageModel model({}, cpu_generator(5));
  const at::Tensor plain = logits_of(model);
  model.run_mlps_with([](Module& mlp, const at::Tensor& input) {
    return at::cat({mlp.forward(input.narrow(1, 0, 4)), mlp.forward(input.narrow(1, 4, 5))}, 1);
  });
  EXPECT_TRUE(at::allclose(logits_of(model), plain, 0, 1e-6));
  model.run_mlps_with([](Module&, const at::Tensor& input) { return input * 0; });
  EXPECT_FALSE(at::allclose(logits_of(model), plain, 0, 1e-4));
}

TEST(VisionLanguageModel, LearnsABatchByHeart) {
  VisionLanguageModel model({.vision_blocks = 1, .language_blocks = 1}, cpu_generator(5));
  AdamW optimizer(model.parameters(), 0.02);
  for (int step = 0; step < 30; ++step) {
    model.zero_grad();
    loss_of(model).backward();
    optimizer.step();
  }
  EXPECT_LT(loss_of(model).item<double>(), 0.1);
}

TEST(VisionLanguageModel, RefusesWhatDoesNotFit) {
  const std::vector<VisionLanguageOptions> wrong{{.channels = 0},
                                                 {.height = 9},
                                                 {.width = 6},
                                                 {.patch = 0},
                                                 {.vision_width = 15},
                                                 {.vision_heads = 0},
                                                 {.vision_hidden = 0},
                                                 {.vision_blocks = -1},
                                                 {.vocabulary = 0},
                                                 {.max_text = 0},
                                                 {.language_width = 9},
                                                 {.language_heads = 3},
                                                 {.language_hidden = -4},
                                                 {.language_blocks = 0},
                                                 {.lora = LoraOptions{.rank = 0}}};
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_THROW(VisionLanguageModel(wrong[i], cpu_generator(5)), Error) << i;
  }
}

TEST(VisionLanguageModel, RefusesOtherInputs) {
  VisionLanguageModel model({.max_text = 5}, cpu_generator(5));
  const at::Tensor image = normal({3, 1, 8, 8}, 1);
  EXPECT_THROW(model.forward(normal({3, 1, 16, 4}, 1), text(5)), c10::Error);
  EXPECT_THROW(model.forward(normal({3, 2, 8, 8}, 1), text(5)), c10::Error);
  EXPECT_THROW(model.forward(image, text(6)), c10::Error);
  EXPECT_THROW(model.forward(image, text(5) + 32), c10::Error);
  EXPECT_THROW(static_cast<Module&>(model).forward(image), Error);
}

TEST(NextTokenLoss, PredictsTheTextFromWhatIsBeforeIt) {
  const at::Tensor logits = normal({2, 7, 32}, 1);
  const at::Tensor tokens = at::randint(32, {2, 3}, cpu_generator(2), at::kLong);
  double sum = 0;
  for (std::int64_t sample = 0; sample < 2; ++sample) {
    for (std::int64_t token = 0; token < 3; ++token) {
      const std::int64_t next = tokens[sample][token].item<std::int64_t>();
      sum -= at::log_softmax(logits[sample][3 + token], 0)[next].item<double>();
    }
  }
  EXPECT_NEAR(next_token_loss(logits, tokens).item<double>(), sum / 6, 1e-5);
}

TEST(NextTokenLoss, DoesNotCountWhatIsNoLabel) {
  const at::Tensor logits = normal({1, 7, 32}, 1);
  const at::Tensor labels = at::tensor({4, 5, -100}, at::kLong).reshape({1, 3});
  EXPECT_EQ(next_token_loss(logits, labels).item<float>(),
            next_token_loss(logits.narrow(1, 0, 6), labels.narrow(1, 0, 2)).item<float>());
}

}  // namespace
}  // namespace lockstep
