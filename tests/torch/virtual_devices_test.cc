#include "harness/sim/virtual_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <vector>

#include "harness/train/module.h"
#include "harness/train/optimizer.h"
#include "harness/train/transformer.h"
#include "harness/train/vision_language_model.h"
#include "reports/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Every test is a process of its own under ctest; in one process the first one opens them.
void open_two(VirtualDeviceOptions options = {}) {
  if (!has_virtual_devices()) open_virtual_devices(options);
}

template <class E = c10::Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(VirtualDevices, TrainATransformerToTheBitsOfTheCpu) {
  open_two();
  const auto trained_on = [](at::Device device) {
    TimeSeriesTransformer model({}, cpu_generator(5));
    model.to(device);
    const auto optimizer = make_optimizer("adamw", model.parameters(), 0.01);
    at::Generator generator = cpu_generator(6);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor input = at::randn({6, 64}, generator, at::TensorOptions()).to(device);
      const at::Tensor labels =
          at::randint(0, 4, {6}, generator, at::TensorOptions(at::kLong)).to(device);
      model.zero_grad();
      at::cross_entropy_loss(model(input), labels).backward();
      optimizer->step();
    }
    std::vector<at::Tensor> result;
    for (const at::Tensor& parameter : model.parameters()) {
      EXPECT_EQ(parameter.device(), device);
      EXPECT_EQ(parameter.grad().device(), device);
      result.push_back(parameter.detach().cpu());
      result.push_back(parameter.grad().cpu());
    }
    return result;
  };
  const std::vector<at::Tensor> here = trained_on(at::kCPU);
  const std::vector<at::Tensor> there = trained_on(virtual_device(1));
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_TRUE(at::equal(here[i], there[i])) << i;
  EXPECT_EQ(virtual_memory(1).live, 0);
  EXPECT_GT(virtual_memory(1).peak, 0);
}

TEST(VirtualDevices, RefuseToMixDevicesInTorchsWords) {
  open_two();
  const at::Tensor zero = at::ones({2, 2}).to(virtual_device(0));
  const at::Tensor one = at::ones({2, 2}).to(virtual_device(1));
  EXPECT_THAT(error_of([&] { zero + one; }),
              HasSubstr("Expected all tensors to be on the same device, but found at least two "
                        "devices, sim:0 and sim:1!"));
  EXPECT_THAT(error_of([&] { zero.mm(one); }),
              AllOf(HasSubstr("Expected all tensors to be on the same device"), HasSubstr("sim:1"),
                    HasSubstr("mat2")));
  EXPECT_THAT(error_of([&] {
                zero.mm(at::ones({2, 2}));
              }),
              AllOf(HasSubstr("Expected all tensors to be on the same device"), HasSubstr("cpu")));
}

TEST(VirtualDevices, RefuseAnOrdinalThatIsNotThere) {
  open_two();
  EXPECT_THAT(error_of([] { at::empty({1}, virtual_device(2)); }),
              AllOf(HasSubstr("sim error: invalid device ordinal"), HasSubstr("sim:2"),
                    HasSubstr("there are 2")));
  EXPECT_THAT(error_of([] { at::ones({1}).to(virtual_device(7)); }),
              HasSubstr("sim error: invalid device ordinal"));
}

TEST(VirtualMemory, RefusesWhatDoesNotFitAndComesBackToNothing) {
  open_two({.capacity = 4 << 20});
  {
    const at::Tensor three = at::empty({3 << 20}, at::device(virtual_device(0)).dtype(at::kByte));
    EXPECT_EQ(virtual_memory(0).live, 3 << 20);
    const std::string text = error_of<c10::OutOfMemoryError>(
        [] { at::empty({2 << 20}, at::device(virtual_device(0)).dtype(at::kByte)); });
    EXPECT_THAT(text, HasSubstr("sim:0 out of memory. Tried to allocate 2.00 MiB. sim:0 has a "
                                "total capacity of 4.00 MiB of which 1.00 MiB is free."));
    EXPECT_THAT(text, HasSubstr("2097152 wanted, 1048576 free, 4194304 capacity"));
    EXPECT_EQ(virtual_memory(0).live, 3 << 20);
    EXPECT_THAT(error_of<c10::OutOfMemoryError>([&] { three + 1; }), HasSubstr("3145728 wanted"));
    EXPECT_EQ(virtual_memory(0).live, 3 << 20);
  }
  EXPECT_EQ(virtual_memory(0).live, 0);
  EXPECT_EQ(virtual_memory(0).peak, 3 << 20);
}

}  // namespace
}  // namespace lockstep
