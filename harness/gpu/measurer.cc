#include "harness/gpu/measurer.h"

#include "harness/gpu/kernel_image.h"

namespace lockstep::gpu {
namespace {

constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

Driver::Context current_context() {
  Driver::Context context = nullptr;
  require(driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (!context) throw Unavailable("no context of CUDA is current");
  return context;
}

void require_no_capture(void* stream) {
  constexpr Driver::Result kImplicit = 906;  // CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: beside a capture
  int is_capturing = 0;
  const Driver::Result result = driver().cuStreamIsCapturing(stream, &is_capturing);
  if (result == kImplicit || is_capturing != 0) throw Capturing();
  require(result, "cuStreamIsCapturing");
}

}  // namespace

Measurer::~Measurer() {
  for (InContext& in : contexts_) {
    try {
      const CurrentContext current(in.context);
      const bool is_unused = in.memory.free();
      if (in.module && is_unused) driver().cuModuleUnload(in.module);
    } catch (const Unavailable&) {  // the process ends
    }
  }
}

template <class Work>
auto Measurer::unless_failed(const Work& work) {
  if (!failure_.empty()) throw Unavailable(failure_);
  try {
    return work();
  } catch (const Unavailable& error) {
    failure_ = error.what();
    throw;
  }
}

std::unique_ptr<Batch> Measurer::start(std::span<const TensorTask> tasks,
                                       std::span<const DeviceBytes> copies, void* stream) {
  return unless_failed([&] {
    const BesideCaptures beside_captures;
    const Driver::Context context = current_context();
    require_no_capture(stream);
    InContext& in = inside(context);
    for (const TensorTask& task : tasks) {
      if (task.runs > 0) require_on_device(in, task.data);
    }
    for (const DeviceBytes& bytes : copies) {
      if (bytes.size > 0) require_on_device(in, bytes.data);
    }
    auto batch = std::make_unique<Batch>(in.memory, in.context);
    batch->start(in.kernel, tasks, copies, stream);
    return batch;
  });
}

void Measurer::wait(const Batch& batch) {
  unless_failed([&] { batch.wait(); });
}

Measurer::InContext& Measurer::inside(Driver::Context context) {
  for (InContext& in : contexts_) {
    if (in.context == context) return in;
  }
  contexts_.emplace_back().context = context;
  load(contexts_.back());
  return contexts_.back();
}

void Measurer::load(InContext& in) {
  require(driver().cuCtxGetDevice(&in.device), "cuCtxGetDevice");
  const auto result = driver().cuModuleLoadData(&in.module, kernel_image().data());
  if (result != 0 && kernel_image().empty()) {
    throw Unavailable("Lockstep was built without nvcc, so it has no kernel for GPUs");
  }
  require(result, "cuModuleLoadData");
  require(driver().cuModuleGetFunction(&in.kernel, in.module, "lockstep_measure"),
          "cuModuleGetFunction");
}

/// A kernel that reads other memory would end the job's context.
void Measurer::require_on_device(const InContext& in, std::uint64_t data) {
  int device = -1;
  require(driver().cuPointerGetAttribute(&device, kDeviceOrdinal, data), "cuPointerGetAttribute");
  if (device != in.device) throw Unavailable("a tensor lies on another GPU than the current one");
}

}  // namespace lockstep::gpu
