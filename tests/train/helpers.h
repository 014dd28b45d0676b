// Shared by the tests of this folder.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/observe/look_at.h"
#include "harness/sim/virtual_devices.h"
#include "harness/train/nn/module.h"

namespace lockstep {

using Tensors = std::vector<at::Tensor>;

inline at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed,
                         const at::TensorOptions& options = {}) {
  return at::randn(shape, cpu_generator(seed), options);
}

inline std::vector<std::string> names_of(const std::vector<NamedTensor>& named) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : named) names.push_back(entry.name);
  return names;
}

inline std::vector<std::byte> bytes_of(const at::Tensor& tensor) {
  std::vector<std::byte> bytes;
  look_at(tensor, std::nullopt, &bytes);
  return bytes;
}

/// Equal in every element, on any device; both undefined, or neither.
inline void expect_equal(const Tensors& left, const Tensors& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].defined(), right[i].defined()) << i;
    EXPECT_TRUE(!left[i].defined() || at::equal(left[i].cpu(), right[i].cpu())) << i;
  }
}

/// Every test is a separate process under ctest; in one process the first one opens them.
inline void open_two(const VirtualDeviceOptions& options = {}) {
  if (!has_virtual_devices()) open_virtual_devices(options);
}

/// The text of torch's error, without its stack.
template <class E = c10::Error, class Call>
std::string torch_error_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

}  // namespace lockstep
