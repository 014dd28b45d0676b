#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <span>
#include <vector>

#include "harness/gpu/driver.h"
#include "harness/gpu/tensor_task.h"

namespace lockstep::gpu {

/// Bytes in the memory of a GPU.
struct DeviceBytes {
  std::uint64_t data = 0;
  std::size_t size = 0;
};

/// Memory of a GPU, or memory of the host that it reads and writes. It grows, and is freed at the
/// end.
class Buffer {
 public:
  enum class Place { device, host };
  explicit Buffer(Place place) : place_(place) {}

  /// Throws Unavailable. What was in it is lost.
  void require_size(std::size_t bytes);
  void free();

  std::uint64_t address() const { return address_; }  ///< on the device
  void* memory() const { return memory_; }            ///< of the host

 private:
  Place place_;
  std::uint64_t address_ = 0;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// While it lives, a context is the current one of this thread.
class CurrentContext {
 public:
  explicit CurrentContext(Driver::Context context);  ///< throws Unavailable
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
};

/// While it lives, calls of this thread do not end a capture of a CUDA graph by another thread.
class BesideCaptures {
 public:
  BesideCaptures();  ///< throws Unavailable
  ~BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int mode_;
};

/// The memory that batches of one context use in turn.
class BatchMemory {
 public:
  static constexpr std::size_t kMost = 32;  ///< batches at the same time

  struct Slot {
    void* event = nullptr;
    Buffer on_device{Buffer::Place::device};
    Buffer on_host{Buffer::Place::host};
    bool is_used = false;
    bool is_lost = false;  ///< the GPU may still use it
  };

  /// A slot that no batch uses; if all are, the first that becomes free. Throws Unavailable. The
  /// context must be current.
  Slot& take();
  void give_back(Slot& slot);

  /// Returns whether the GPU uses nothing any more. The context must be current.
  bool free();

 private:
  Slot* unused();

  std::mutex mutex_;
  std::condition_variable is_given_back_;
  std::list<Slot> slots_;
};

/// What a GPU was given to measure and to copy in one go. Any thread may use it, one at a time.
class Batch {
 public:
  Batch(BatchMemory& memory, Driver::Context context);

  /// Its memory is used again. If the GPU is not done, it never is.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// Gives the work to `stream`, after all its earlier work. Throws Unavailable.
  void start(void* kernel, std::span<const TensorTask> tasks, std::span<const DeviceBytes> copies,
             void* stream);

  /// Whether the GPU has done all of it. Throws Unavailable.
  bool is_done() const;

  /// Waits until it has. Throws Unavailable.
  void wait() const;

  /// One per task. Requires: it is done.
  std::span<const TensorSums> sums() const;

  /// The copied bytes. Requires: it is done.
  std::span<const std::byte> copy(std::size_t number) const;

 private:
  BatchMemory& memory_;
  Driver::Context context_;
  BatchMemory::Slot& slot_;
  std::size_t sums_ = 0;  ///< how many
  std::vector<std::span<const std::byte>> copies_;
};

}  // namespace lockstep::gpu
