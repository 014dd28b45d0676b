#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

#include "harness/record/observation.h"

namespace lockstep {

/// A tensor whose value is to be digested, and what comes of it.
struct DigestTask {
  at::Tensor tensor;           ///< on any device, comparable (`describe`)
  Observation* row = nullptr;  ///< what `describe` said of it; receives digest and statistics
  bool wants_bytes = false;
  std::vector<std::byte> bytes = {};  ///< row-major bytes of the local part, where they are wanted
};

/// Makes digests and statistics of tensors. Changes no tensor and no autograd state.
class Digester {
 public:
  virtual ~Digester() = default;

  /// Does all `tasks`: many tensors in one call, which a device can digest in one launch. Throws
  /// whatever goes wrong; then the tasks may be done in part.
  virtual void digest(std::span<DigestTask> tasks) = 0;
};

/// Digests on the CPU, tensor by tensor. A tensor that is elsewhere or is not contiguous is copied
/// first. Waits for the tensor's own device alone.
class CpuDigester : public Digester {
 public:
  void digest(std::span<DigestTask> tasks) override;
};

}  // namespace lockstep
