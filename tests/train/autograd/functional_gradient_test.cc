// Functorch's gradients of tensors on two devices: the engine needs the storage of a gradient that
// moves to another device, and a wrapper has none.

#include "harness/train/autograd/functional_gradient.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "harness/train/nn/module.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kNoStorage = "Cannot access storage of TensorWrapper";

/// A hidden layer and a head, on separate devices.
struct LinearModel {
  LinearModel(at::Device hidden_device, at::Device head_device)
      : hidden(drawn({8, 4}, 1).to(hidden_device)),
        head(drawn({3, 8}, 2).to(head_device)),
        input(drawn({5, 4}, 3).to(hidden_device)),
        labels(at::randint(0, 3, {5}, cpu_generator(4), at::kLong).to(head_device)) {}

  static at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
    return at::randn(shape, cpu_generator(seed), at::TensorOptions());
  }

  /// `moves`: the hidden states are moved to the head's device first.
  LossOf loss(bool moves) const {
    return [*this, moves](const Tensors& weights) {
      const at::Tensor states = at::tanh(at::linear(input, weights[0]));
      const at::Tensor logits = at::linear(moves ? states.to(head.device()) : states, weights[1]);
      return at::cross_entropy_loss(logits, labels);
    };
  }

  Tensors weights() const { return {hidden, head}; }

  at::Tensor hidden, head, input, labels;
};

void expect_same(const GradAndValue& left, const GradAndValue& right) {
  EXPECT_TRUE(at::equal(left.value.cpu(), right.value.cpu()));
  ASSERT_EQ(left.gradients.size(), right.gradients.size());
  for (std::size_t i = 0; i < left.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(left.gradients[i].cpu(), right.gradients[i].cpu())) << i;
    EXPECT_FALSE(left.gradients[i].requires_grad());
  }
}

/// Before the first backward.
struct OpenDevices {
  OpenDevices() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 2});
  }
};

class FunctionalGradient : public testing::Test {
 protected:
  const OpenDevices open_;
  const LinearModel on_cpu_{at::kCPU, at::kCPU};
  const GradAndValue expected_ = grad_and_value(on_cpu_.loss(true), on_cpu_.weights());
};

TEST_F(FunctionalGradient, IsThatOfAutogradWhereNoneGoesFromDeviceToDevice) {
  const at::Device cpu(at::kCPU), zero = virtual_device(0), one = virtual_device(1);
  for (const auto& [hidden, head] :
       {std::pair(cpu, cpu), {zero, zero}, {one, one}, {cpu, one}, {one, cpu}}) {
    const LinearModel model(hidden, head);
    const GradAndValue result = functional_grad_and_value(model.loss(true), model.weights());
    expect_same(result, expected_);
    EXPECT_EQ(result.gradients[0].device(), hidden);
    EXPECT_EQ(result.gradients[1].device(), head);
  }
}

TEST_F(FunctionalGradient, CannotGoFromOneDeviceToAnother) {
  const LinearModel model(virtual_device(0), virtual_device(1));
  EXPECT_THAT(torch_error_of([&] { functional_grad_and_value(model.loss(true), model.weights()); }),
              HasSubstr(kNoStorage));
  expect_same(grad_and_value(model.loss(true), model.weights()), expected_);
}

TEST_F(FunctionalGradient, WorksAgainAfterItCouldNot) {
  const LinearModel model(virtual_device(0), virtual_device(1));
  torch_error_of([&] { functional_grad_and_value(model.loss(true), model.weights()); });
  expect_same(functional_grad_and_value(on_cpu_.loss(true), on_cpu_.weights()), expected_);
}

TEST_F(FunctionalGradient, RefusesToMixDevicesInTheWordsOfAutograd) {
  const LinearModel model(virtual_device(0), virtual_device(1));
  const std::string error =
      torch_error_of([&] { functional_grad_and_value(model.loss(false), model.weights()); });
  EXPECT_THAT(error, HasSubstr("Expected all tensors to be on the same device"));
  EXPECT_THAT(error, Not(HasSubstr("TensorWrapper")));
}

TEST_F(FunctionalGradient, IsTakenOfTensorsThatHaveNoStorage) {
  for (const at::Device device : {at::Device(at::kCPU), virtual_device(0)}) {
    const LossOf asks = [](const Tensors& arguments) {
      EXPECT_FALSE(arguments[0].has_storage());
      static_cast<void>(arguments[0].storage());
      return arguments[0].sum();
    };
    EXPECT_THAT(
        torch_error_of([&] { functional_grad_and_value(asks, {at::ones({2}).to(device)}); }),
        HasSubstr(kNoStorage));
    EXPECT_EQ(torch_error_of([&] {
                grad_and_value([](const Tensors& a) { return a[0].sum(); },
                               {at::ones({2}).to(device)});
              }),
              "nothing was thrown");
  }
}

}  // namespace
}  // namespace lockstep
