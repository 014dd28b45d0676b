#include "harness/sim/virtual_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <vector>

#include "harness/train/nn/module.h"
#include "reports/base/error.h"
#include "tests/train/helpers.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// A custom function whose backward puts the gradient on `device`. Every test is a separate process
/// under ctest; in one process the first test opens the devices.
class MovesGradient : public torch::autograd::Function<MovesGradient> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            at::Device device) {
    context->saved_data["device"] = device;
    return input * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0].to(context->saved_data["device"].toDevice()), at::Tensor()};
  }
};

TEST(VirtualDevices, TakeAGradientOnAnotherDeviceForAnErrorInTheEnginesWords) {
  open_two();
  const at::Tensor leaf = at::ones({2}).to(virtual_device(0)).requires_grad_();
  EXPECT_THAT(
      torch_error_of([&] { MovesGradient::apply(leaf, virtual_device(1)).sum().backward(); }),
      HasSubstr("returned an invalid gradient at index 0 - expected device sim:0 but got sim:1"));
}

TEST(VirtualDevices, LetTheEngineMoveAGradientWithoutDimensions) {
  open_two();
  const at::Tensor leaf = at::ones({}).to(virtual_device(0)).requires_grad_();
  MovesGradient::apply(leaf, virtual_device(1)).backward();
  EXPECT_EQ(leaf.grad().device(), virtual_device(0));
  EXPECT_EQ(leaf.grad().item<float>(), 1);
}

TEST(VirtualDevices, GiveTwoDevicesTheBitsOfOne) {
  open_two();
  const auto gradients = [](at::Device lower, at::Device upper) {
    const at::Generator generator = cpu_generator(3);
    Linear below(8, 16, generator), above(16, 4, generator);
    below.to(lower);
    above.to(upper);
    const at::Tensor input = at::randn({5, 8}, cpu_generator(4), at::TensorOptions()).to(lower);
    above(below(input).tanh().to(upper)).pow(2).sum().backward();
    std::vector<at::Tensor> all;
    for (const Module* module : {&below, &above}) {
      for (const at::Tensor& parameter : module->parameters()) {
        EXPECT_EQ(parameter.grad().device(), parameter.device());
        all.push_back(parameter.grad().cpu());
      }
    }
    return all;
  };
  const auto here = gradients(at::kCPU, at::kCPU);
  const auto there = gradients(virtual_device(0), virtual_device(1));
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(at::equal(here[i], there[i])) << i;
}

TEST(VirtualDevices, ShareTheirMemoryWithTheirAliases) {
  open_two();
  const at::Tensor tensor = at::ones({2, 3}).to(virtual_device(1)).t();
  const at::Tensor alias = cpu_alias(tensor);
  EXPECT_TRUE(alias.is_cpu());
  EXPECT_EQ(alias.strides(), tensor.strides());
  alias.fill_(5);
  EXPECT_TRUE(at::equal(tensor.cpu(), alias));
  EXPECT_EQ(virtual_memory(1).live, 24);
  EXPECT_TRUE(cpu_alias(alias).is_same(alias));
}

TEST(VirtualDevices, AreOpenedOnce) {
  EXPECT_FALSE(has_virtual_devices());
  open_virtual_devices({.count = 3});
  EXPECT_TRUE(has_virtual_devices());
  EXPECT_THROW(open_virtual_devices({.count = 3}), Error);
  EXPECT_EQ(at::empty({1}, virtual_device(2)).device().str(), "sim:2");
}

// Undetected: the device of a gradient assigned to `.grad` by hand is not checked.
TEST(VirtualDevices, TakeAnyGradientThatIsAssigned) {
  open_two();
  const at::Tensor leaf = at::ones({2}).to(virtual_device(0)).requires_grad_();
  leaf.mutable_grad() = at::ones({2}).to(virtual_device(1));
  EXPECT_EQ(leaf.grad().device(), virtual_device(1));
}

// Undetected: on a GPU the host cannot read the memory, and the generator is separate.
TEST(VirtualDevices, AllowTheHostToReadThemAndToDrawForThem) {
  open_two();
  at::Tensor tensor = at::ones({2}).to(virtual_device(0));
  EXPECT_EQ(*tensor.const_data_ptr<float>(), 1);
  EXPECT_NO_THROW(tensor.uniform_(0, 1, cpu_generator(1)));
}

TEST(VirtualDevices, RefuseToMixDevicesInTorchsWords) {
  open_two();
  const at::Tensor zero = at::ones({2, 2}).to(virtual_device(0));
  const at::Tensor one = at::ones({2, 2}).to(virtual_device(1));
  EXPECT_THAT(torch_error_of([&] { zero + one; }),
              HasSubstr("Expected all tensors to be on the same device, but found at least two "
                        "devices, sim:0 and sim:1!"));
  EXPECT_THAT(torch_error_of([&] { zero.mm(one); }),
              AllOf(HasSubstr("Expected all tensors to be on the same device"), HasSubstr("sim:1"),
                    HasSubstr("mat2")));
  EXPECT_THAT(torch_error_of([&] {
                zero.mm(at::ones({2, 2}));
              }),
              AllOf(HasSubstr("Expected all tensors to be on the same device"), HasSubstr("cpu")));
}

TEST(VirtualDevices, RefuseToConvolveWithAnotherDevices) {
  open_two();
  const at::Tensor input = at::ones({1, 2, 4, 4}).to(virtual_device(0));
  const at::Tensor weight = at::ones({3, 2, 2, 2});
  const at::Tensor here = weight.to(virtual_device(0)), there = weight.to(virtual_device(1));
  const std::string words = "Expected all tensors to be on the same device";
  EXPECT_THAT(torch_error_of([&] { at::conv2d(input, there); }),
              AllOf(HasSubstr(words), HasSubstr("weight")));
  EXPECT_THAT(torch_error_of([&] { at::conv2d(input, weight); }), HasSubstr(words));
  EXPECT_THAT(torch_error_of([&] { at::conv2d(input, here, at::ones({3}).to(virtual_device(1))); }),
              AllOf(HasSubstr(words), HasSubstr("bias")));
  EXPECT_TRUE(at::equal(at::conv2d(input, here).cpu(), at::conv2d(input.cpu(), weight)));
}

TEST(VirtualDevices, TakeIndicesOfTheCpuOnlyWhereTheyAreOnePerDimension) {
  open_two();
  const at::Tensor table = at::ones({4, 2}).to(virtual_device(0));
  const at::Tensor rows = at::arange(2);
  EXPECT_EQ(table.index({rows}).size(0), 2);
  EXPECT_THAT(torch_error_of([&] { at::embedding(table, rows); }),
              HasSubstr("Expected all tensors to be on the same device"));
}

TEST(VirtualDevices, RefuseAnOrdinalThatIsNotThere) {
  open_two();
  EXPECT_THAT(torch_error_of([] { at::empty({1}, virtual_device(2)); }),
              AllOf(HasSubstr("sim error: invalid device ordinal"), HasSubstr("sim:2"),
                    HasSubstr("there are 2")));
  EXPECT_THAT(torch_error_of([] { at::ones({1}).to(virtual_device(7)); }),
              HasSubstr("sim error: invalid device ordinal"));
}

}  // namespace
}  // namespace lockstep
