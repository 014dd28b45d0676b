#pragma once

#include <cstdint>
#include <memory>

namespace lockstep {

/// Counts the CPU memory of tensors: the bytes that this thread requests from torch's CPU allocator
/// during the object's lifetime. It measures at the allocator instead of computing from shapes. It
/// excludes rounding by the allocator and kernels' other memory. Earlier allocations and their
/// release are not counted, so `live` is never negative. Releases count on any thread, and tensors
/// may outlive the object.
///
/// An outer object also counts the allocations of objects inside its lifetime. Without an object,
/// an allocation costs one extra read of a thread-local pointer.
///
/// Not counted: allocations of torch's worker threads inside a kernel, and in-place growth of a
/// storage older than the process' first object.
///
/// Thread rule: create and destroy on one thread, in reverse order; any thread may read the
/// numbers.
class ActivationMemory {
 public:
  /// The first one in a process puts a counting allocator before torch's, so create it while no
  /// other thread allocates. Throws Error (internal) when another allocator has a higher priority.
  ActivationMemory();
  ~ActivationMemory();
  ActivationMemory(const ActivationMemory&) = delete;
  ActivationMemory& operator=(const ActivationMemory&) = delete;

  /// Bytes allocated and not freed, without host memory.
  std::int64_t live() const;
  /// The most that `live` was.
  std::int64_t peak() const;

  /// The same for allocations of host memory.
  std::int64_t host_live() const;
  std::int64_t host_peak() const;

  /// The allocator's state for an object; it lives until its last allocation is freed.
  struct Count;

 private:
  std::shared_ptr<Count> count_;
};

/// While it exists, allocations of this thread count as host memory. It stands for the destination
/// of offloaded activations, because all memory is the CPU's here.
class HostMemory {
 public:
  HostMemory();
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
};

}  // namespace lockstep
