#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "harness/record/observation.h"

namespace lockstep {

/// A tensor to be digested, and its result.
struct DigestTask {
  at::Tensor tensor;           ///< on any device, comparable (`describe`)
  Observation* row = nullptr;  ///< filled by `describe`; receives digest and statistics
  bool wants_bytes = false;
  std::vector<std::byte> bytes = {};  ///< row-major bytes of the local part, if requested
};

/// Computes digests and statistics of tensors. Changes no tensor and no autograd state.
class Digester {
 public:
  virtual ~Digester() = default;

  /// Performs all `tasks`: many tensors in one call, which a device can digest in one launch.
  /// Throws on any failure; some tasks may then be done.
  virtual void digest(std::span<DigestTask> tasks) = 0;
};

/// Digests on the CPU, tensor by tensor. A tensor that is on another device or not contiguous is
/// copied first. Synchronises only the tensor's own device.
class CpuDigester : public Digester {
 public:
  void digest(std::span<DigestTask> tasks) override;
};

}  // namespace lockstep
