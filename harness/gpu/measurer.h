#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>

#include "harness/gpu/batch.h"
#include "harness/gpu/driver.h"
#include "harness/gpu/tensor_task.h"

namespace lockstep::gpu {

/// The stream captures a CUDA graph: its work is not done now, so nothing can be read.
class Capturing : public std::runtime_error {
 public:
  Capturing()
      : std::runtime_error("the stream captures a CUDA graph: its values are not there yet") {}
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

  /// Measures and copies after all earlier work of `stream`, without waiting for it; waits only if
  /// `BatchMemory::kMost` batches exist. Its batches must be destroyed before it. Throws
  /// Unavailable, or Capturing.
  std::unique_ptr<Batch> start(std::span<const TensorTask> tasks,
                               std::span<const DeviceBytes> copies, void* stream);

  /// Waits until a batch is done. Throws Unavailable.
  void wait(const Batch& batch);

 private:
  /// All that belongs to one context.
  struct InContext {
    Driver::Context context = nullptr;
    void* module = nullptr;
    void* kernel = nullptr;
    int device = 0;
    BatchMemory memory = {};
  };

  template <class Work>
  auto unless_failed(const Work& work);
  InContext& inside(Driver::Context context);
  static void load(InContext& in);
  static void require_on_device(const InContext& in, std::uint64_t data);

  std::list<InContext> contexts_;
  std::string failure_;
};

}  // namespace lockstep::gpu
