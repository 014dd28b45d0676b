// What functorch's gradients do with tensors on two devices. A report of "Cannot access storage of
// TensorWrapper" came out of a compiler that traced a functional gradient of a model on two
// devices; these tests say what of it torch raises without a compiler: the engine notes the storage
// of a gradient on the stream of the device it is handed to, and a wrapper has none.

#include <ATen/TensorOperators.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/TensorWrapper.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "harness/sim/virtual_devices.h"
#include "harness/train/module.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

/// One level of torch.func.grad: tensors that are wrapped in it are those of its own autograd.
class GradLevel {
 public:
  GradLevel()
      : level_(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Grad, {}, {},
                                                      /*prev_grad_mode=*/true)) {}
  ~GradLevel() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  GradLevel(const GradLevel&) = delete;
  GradLevel& operator=(const GradLevel&) = delete;

  at::Tensor wrap(const at::Tensor& tensor) const {
    return at::functorch::makeTensorWrapper(tensor, level_);
  }
  at::Tensor unwrap(const at::Tensor& tensor) const {
    const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
    return wrapper && wrapper->level() == level_ ? wrapper->value() : tensor;
  }

 private:
  std::int64_t level_;
};

using Loss = std::function<at::Tensor(const Tensors& arguments)>;

/// torch.func.grad_and_value over all of `arguments`: the gradients, then the loss.
Tensors grad_and_value(const Loss& loss_of, const Tensors& arguments) {
  const GradLevel level;
  Tensors wrapped;
  for (const at::Tensor& argument : arguments) {
    wrapped.push_back(level.wrap(argument).requires_grad_());
  }
  const at::Tensor loss = loss_of(wrapped);
  Tensors results = torch::autograd::grad({loss}, wrapped, {}, /*retain_graph=*/true,
                                          /*create_graph=*/true);
  results.push_back(loss);
  for (at::Tensor& result : results) result = level.unwrap(result);
  return results;
}

/// The same without functorch.
Tensors plain_grad_and_value(const Loss& loss_of, const Tensors& arguments) {
  Tensors leaves;
  for (const at::Tensor& argument : arguments) leaves.push_back(argument.detach().requires_grad_());
  const at::Tensor loss = loss_of(leaves);
  Tensors results = torch::autograd::grad({loss}, leaves);
  results.push_back(loss);
  return results;
}

/// A hidden layer and a head, on devices of their own.
struct Model {
  Model(at::Device hidden_device, at::Device head_device)
      : hidden(drawn({8, 4}, 1).to(hidden_device)),
        head(drawn({3, 8}, 2).to(head_device)),
        input(drawn({5, 4}, 3).to(hidden_device)),
        labels(at::randint(0, 3, {5}, cpu_generator(4), at::kLong).to(head_device)) {}

  static at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
    return at::randn(shape, cpu_generator(seed), at::TensorOptions());
  }

  /// `moves`: the hidden states go to the head's device first.
  Loss loss(bool moves) const {
    return [*this, moves](const Tensors& weights) {
      const at::Tensor states = at::tanh(at::linear(input, weights[0]));
      const at::Tensor logits = at::linear(moves ? states.to(head.device()) : states, weights[1]);
      return at::cross_entropy_loss(logits, labels);
    };
  }

  Tensors weights() const { return {hidden, head}; }

  at::Tensor hidden, head, input, labels;
};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

void expect_equal(const Tensors& left, const Tensors& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(at::equal(left[i].detach().cpu(), right[i].detach().cpu())) << i;
  }
}

class Functorch : public testing::Test {
 protected:
  Functorch() {
    if (!has_virtual_devices()) open_virtual_devices({.count = 2});
  }
};

TEST_F(Functorch, GivesTheGradientsOfPlainAutogradWhereNoGradientGoesFromDeviceToDevice) {
  const Model on_cpu(at::kCPU, at::kCPU);
  const Tensors expected = plain_grad_and_value(on_cpu.loss(true), on_cpu.weights());
  const at::Device cpu(at::kCPU), zero = virtual_device(0), one = virtual_device(1);
  for (const auto& [hidden, head] :
       {std::pair(cpu, cpu), {zero, zero}, {one, one}, {cpu, one}, {one, cpu}}) {
    const Model model(hidden, head);
    const Tensors results = grad_and_value(model.loss(true), model.weights());
    expect_equal(results, expected);
    EXPECT_EQ(results[0].device(), hidden);
    EXPECT_EQ(results[1].device(), head);
  }
}

TEST_F(Functorch, CannotTakeGradientsFromOneDeviceToAnother) {
  const Model model(virtual_device(0), virtual_device(1));
  EXPECT_THAT(error_of([&] { grad_and_value(model.loss(true), model.weights()); }),
              HasSubstr("Cannot access storage of TensorWrapper"));
  const Model on_cpu(at::kCPU, at::kCPU);
  expect_equal(plain_grad_and_value(model.loss(true), model.weights()),
               plain_grad_and_value(on_cpu.loss(true), on_cpu.weights()));
}

TEST_F(Functorch, RefusesToMixDevicesInTheWordsOfPlainAutograd) {
  const Model model(virtual_device(0), virtual_device(1));
  const std::string error = error_of([&] { grad_and_value(model.loss(false), model.weights()); });
  EXPECT_THAT(error, HasSubstr("Expected all tensors to be on the same device"));
  EXPECT_THAT(error, Not(HasSubstr("TensorWrapper")));
}

TEST_F(Functorch, RefusesWhoeverAsksAWrapperForItsStorage) {
  for (const at::Device device : {at::Device(at::kCPU), virtual_device(0)}) {
    const at::Tensor tensor = at::ones({2}).to(device);
    const GradLevel level;
    const at::Tensor wrapper = level.wrap(tensor);
    const std::string text = "Cannot access storage of TensorWrapper";
    EXPECT_THAT(error_of([&] { wrapper.storage(); }), HasSubstr(text));
    EXPECT_FALSE(wrapper.has_storage());
    EXPECT_THAT(error_of([&] { wrapper.data_ptr(); }), Not(HasSubstr(text)));
    EXPECT_THAT(error_of([&] { cpu_alias(wrapper); }),
                HasSubstr(device.is_cpu() ? "nothing was thrown" : text));
  }
}

}  // namespace
}  // namespace lockstep
