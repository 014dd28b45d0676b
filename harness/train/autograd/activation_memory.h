#pragma once

#include <cstdint>
#include <memory>

namespace lockstep {

/// Counts the memory of tensors on the CPU: the bytes that torch's CPU allocator is asked for by
/// the thread that made this object, while it lives. Measured at the allocator, not computed from
/// shapes; what the allocator rounds up and what kernels take from elsewhere is not in it. What was
/// there before is not counted, and its end neither; so `live` is never negative. Ends of what was
/// counted count on any thread, and tensors may outlive the object.
///
/// An object counts what an object made inside its life counts too. Where none lives, an allocation
/// costs one look at a thread-local pointer more.
///
/// Not seen: what torch's worker threads allocate inside a kernel, and a storage from before the
/// first object of the process that grows in place.
///
/// Thread rule: made, used in reverse order and ended on one thread; the numbers can be read on
/// any.
class ActivationMemory {
 public:
  /// The first one in a process puts a counting allocator before torch's: make it while no other
  /// thread allocates. Throws Error (internal) when another allocator of higher priority is there.
  ActivationMemory();
  ~ActivationMemory();
  ActivationMemory(const ActivationMemory&) = delete;
  ActivationMemory& operator=(const ActivationMemory&) = delete;

  /// Bytes that are allocated and not freed, without those of host memory.
  std::int64_t live() const;
  /// The most that `live` was.
  std::int64_t peak() const;

  /// The same of what was allocated as host memory.
  std::int64_t host_live() const;
  std::int64_t host_peak() const;

  /// What the allocator knows of an object; it lives until its last allocation is freed.
  struct Count;

 private:
  std::shared_ptr<Count> count_;
};

/// While it lives, what this thread allocates is counted as host memory: the place to which
/// activations are offloaded from a GPU, in a world in which all memory is the CPU's.
class HostMemory {
 public:
  HostMemory();
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
};

}  // namespace lockstep
