#include "harness/train/autograd/fused_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/sim/virtual_devices.h"
#include "harness/train/nn/module.h"

namespace lockstep {
namespace {

constexpr std::int64_t kVocabulary = 11;

/// A head, hidden states of uneven rows, and labels of which one is ignored.
class FusedCrossEntropy : public testing::Test {
 protected:
  at::Tensor fused(const FusedCrossEntropyOptions& options) {
    return fused_cross_entropy(hidden, head, scale, labels, options);
  }

  at::Tensor plain() {
    const at::Tensor logits = at::linear(hidden, head) * scale;
    return at::cross_entropy_loss(logits.flatten(0, 1), labels.flatten());
  }

  /// Takes and drops the gradients of hidden states, head and scale.
  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients;
    for (at::Tensor* tensor : {&hidden, &head, &scale}) {
      gradients.push_back(std::exchange(tensor->mutable_grad(), at::Tensor()));
    }
    return gradients;
  }

  void expect_gradients(const std::vector<at::Tensor>& actual,
                        const std::vector<at::Tensor>& expected, double factor = 1) {
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(actual[i].defined(), expected[i].defined()) << i;
      if (!actual[i].defined()) continue;
      EXPECT_TRUE(at::allclose(actual[i], expected[i] * factor, 1e-12, 1e-14)) << i;
    }
  }

  /// A leaf on that device.
  static at::Tensor on(at::Device device, const at::Tensor& tensor) {
    return tensor.detach().to(device).requires_grad_(true);
  }

  at::Generator generator = cpu_generator(1);
  at::Tensor hidden = at::randn({3, 5, 4}, generator, at::kDouble).requires_grad_(true);
  at::Tensor head = at::randn({kVocabulary, 4}, generator, at::kDouble).requires_grad_(true);
  at::Tensor scale = at::randn({}, generator, at::kDouble).requires_grad_(true);
  at::Tensor labels = at::randint(kVocabulary, {3, 5}, generator, at::kLong)
                          .index_fill(1, at::tensor({2}, at::kLong), -100);
};

TEST_F(FusedCrossEntropy, IsThePlainOneForAnyNumberOfChunks) {
  const at::Tensor expected = plain();
  expected.backward();
  const auto gradients = take_gradients();
  for (const std::int64_t chunks : {1, 2, 4, 15}) {
    const at::Tensor loss = fused({.chunks = chunks});
    EXPECT_TRUE(at::allclose(loss, expected, 1e-12)) << chunks;
    loss.backward();
    expect_gradients(take_gradients(), gradients);
  }
}

TEST_F(FusedCrossEntropy, LeavesOutWhatNeedsNoGradient) {
  head.requires_grad_(false);
  plain().backward();
  const auto gradients = take_gradients();
  EXPECT_FALSE(gradients[1].defined());
  fused({}).backward();
  expect_gradients(take_gradients(), gradients);
}

TEST_F(FusedCrossEntropy, WorksWithoutScale) {
  scale = at::Tensor();
  const at::Tensor loss = fused({});
  EXPECT_TRUE(at::allclose(
      loss, at::cross_entropy_loss(at::linear(hidden, head).flatten(0, 1), labels.flatten()),
      1e-12));
  loss.backward();
  EXPECT_TRUE(hidden.grad().defined());
}

TEST_F(FusedCrossEntropy, MultipliesByWhatTheLossWasMultipliedBy) {
  plain().backward();
  const auto gradients = take_gradients();
  (fused({}) * 3).backward();
  expect_gradients(take_gradients(), gradients, 3);
  (fused({.grad_output = GradOutput::ignored}) * 3).backward();
  expect_gradients(take_gradients(), gradients, 1);
  (fused({.grad_output = GradOutput::in_place}) * 3).backward();
  expect_gradients(take_gradients(), gradients, 3);
}

TEST_F(FusedCrossEntropy, InPlaceMultipliesAgainInASecondBackward) {
  plain().backward();
  const auto gradients = take_gradients();
  const at::Tensor loss =
      fused({.grad_output = GradOutput::in_place, .saves_for_backward = false}) * 3;
  loss.backward({}, /*retain_graph=*/true);
  take_gradients();
  loss.backward();
  expect_gradients(take_gradients(), gradients, 9);
}

TEST_F(FusedCrossEntropy, SavedTensorsNoticeThatTheyWereChanged) {
  const at::Tensor loss = fused({.grad_output = GradOutput::in_place}) * 3;
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THAT([&] { loss.backward(); }, testing::ThrowsMessage<c10::Error>(testing::HasSubstr(
                                            "has been modified by an inplace operation")));
}

TEST_F(FusedCrossEntropy, OutOfPlaceGivesTheSameASecondTime) {
  plain().backward();
  const auto gradients = take_gradients();
  const at::Tensor loss = fused({}) * 3;
  loss.backward({}, /*retain_graph=*/true);
  take_gradients();
  loss.backward();
  expect_gradients(take_gradients(), gradients, 3);
}

TEST_F(FusedCrossEntropy, IsTheSameByFunctorch) {
  const at::Tensor loss = fused({});
  loss.backward();
  const auto gradients = take_gradients();
  const at::Tensor functional = fused({.is_functional = true});
  EXPECT_TRUE(at::equal(functional, loss));
  functional.backward();
  const auto actual = take_gradients();
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(at::equal(actual[i], gradients[i]));
}

TEST_F(FusedCrossEntropy, IsTheSameOnVirtualDevicesBitForBit) {
  open_virtual_devices({.count = 2});  // before the first backward
  const at::Tensor loss = fused({});
  loss.backward();
  const auto gradients = take_gradients();
  for (at::Tensor* tensor : {&hidden, &scale}) *tensor = on(virtual_device(0), *tensor);
  head = on(virtual_device(1), head);
  const at::Tensor split = fused({});
  EXPECT_EQ(split.device(), virtual_device(1));
  EXPECT_TRUE(at::equal(split.cpu(), loss));
  split.backward();
  const auto actual = take_gradients();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::equal(actual[i].cpu(), gradients[i])) << i;
  }
  EXPECT_EQ(actual[0].device(), virtual_device(0));
  EXPECT_EQ(actual[1].device(), virtual_device(1));
}

TEST_F(FusedCrossEntropy, LeavesGradientsOnTheHeadsDeviceWhenAsked) {
  open_virtual_devices({.count = 2});
  hidden = on(virtual_device(0), hidden);
  for (at::Tensor* tensor : {&head, &scale}) *tensor = on(virtual_device(1), *tensor);
  const at::Tensor loss = fused({.returns_gradients = false});
  EXPECT_THAT([&] { loss.backward(); },
              testing::ThrowsMessage<c10::Error>(testing::HasSubstr(
                  "invalid gradient at index 0 - expected device sim:0 but got sim:1")));
}

TEST_F(FusedCrossEntropy, LeavesAGradientWithoutDimensionsToTheEngine) {
  open_virtual_devices({.count = 2});
  scale = on(virtual_device(0), scale);
  for (at::Tensor* tensor : {&head, &hidden}) *tensor = on(virtual_device(1), *tensor);
  fused({.returns_gradients = false}).backward();
  EXPECT_EQ(scale.grad().device(), virtual_device(0));
}

}  // namespace
}  // namespace lockstep
