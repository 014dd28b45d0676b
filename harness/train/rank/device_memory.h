#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "harness/train/autograd/activation_memory.h"

namespace lockstep {

/// Bytes of the tensors of this process that are on `device` now, as they were requested. 0 on the
/// CPU, where nobody counts.
std::int64_t allocated_bytes(at::Device device);

/// Bytes that tensors on one device take beyond those that were live when it was created: as they
/// are requested, without an allocator's rounding. On the CPU those that this thread requests
/// (`ActivationMemory`); on others those of the process, so create one at a time there.
class DeviceMemory {
 public:
  explicit DeviceMemory(at::Device device);

  /// The most so far.
  std::int64_t peak() const;

 private:
  at::Device device_;
  std::int64_t live_before_ = 0;
  std::optional<ActivationMemory> on_cpu_;
};

}  // namespace lockstep
