#include "harness/train/fused_cross_entropy.h"

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

#include "harness/train/module.h"

namespace lockstep {
namespace {

constexpr std::int64_t kVocabulary = 11;

/// A head, hidden states of uneven rows, and labels of which one does not count.
class FusedCrossEntropy : public testing::Test {
 protected:
  at::Tensor fused(const FusedCrossEntropyOptions& options) {
    return fused_cross_entropy(hidden, head, scale, labels, options);
  }

  at::Tensor plain() {
    const at::Tensor logits = at::linear(hidden, head) * scale;
    return at::cross_entropy_loss(logits.flatten(0, 1), labels.flatten());
  }

  /// Gradients of hidden states, head and scale, which are dropped.
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

}  // namespace
}  // namespace lockstep
