#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "harness/gpu/driver.h"
#include "harness/gpu/tensor_task.h"

namespace lockstep::gpu {

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

/// Measures tensors in the memory of GPUs by the kernel, in the context that is current when it is
/// called. Uses it for nothing else, and makes none. Belongs to one thread at a time.
///
/// After a failure it stays unavailable for the same reason.
class Measurer {
 public:
  Measurer() = default;
  ~Measurer();
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  /// Measures after all earlier work of `stream`, and waits for the results. Throws Unavailable.
  std::vector<TensorSums> measure(std::span<const TensorTask> tasks, void* stream);

  /// Copies memory of the GPU after all earlier work of `stream`. Throws Unavailable.
  void copy(std::uint64_t data, std::span<std::byte> to, void* stream);

 private:
  /// All that belongs to one context.
  struct InContext {
    Driver::Context context = nullptr;
    void* module = nullptr;
    void* kernel = nullptr;
    void* event = nullptr;
    int device = 0;
    Buffer on_device{Buffer::Place::device};
    Buffer on_host{Buffer::Place::host};
  };

  template <class Work>
  auto unless_failed(const Work& work);
  InContext& current();
  static void load(InContext& in);
  static void require_on_device(const InContext& in, std::uint64_t data);
  static std::vector<TensorSums> launch(InContext& in, std::span<const TensorTask> tasks,
                                        void* stream);
  static void wait(const InContext& in, void* stream);

  std::list<InContext> contexts_;
  std::string failure_;
};

}  // namespace lockstep::gpu
