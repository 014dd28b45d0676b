#include "harness/gpu/measurer.h"

#include <algorithm>
#include <cstring>

#include "harness/gpu/kernel_image.h"
#include "harness/gpu/launch_plan.h"
#include "harness/gpu/team.h"

namespace lockstep::gpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kCopied = std::size_t{16} << 20;  // bytes at once
constexpr int kDeviceOrdinal = 9;                       // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr unsigned kWithoutTiming = 2;                  // CU_EVENT_DISABLE_TIMING

/// Lays out arrays one after the other.
class Layout {
 public:
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = size_;
    size_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

/// A launch and the places of its arrays.
struct PlacedLaunch {
  LaunchPlan plan;
  std::size_t tasks;
  std::size_t tasks_of_teams;
  std::size_t finished;
  std::size_t first_result;  ///< number
};

/// What is measured at once, in memory of the GPU: first all that is sent there.
struct PlacedLaunches {
  std::vector<PlacedLaunch> launches;
  std::size_t results_count = 0;
  std::size_t sent = 0;  ///< bytes
  std::size_t partials = 0;
  std::size_t results = 0;
  std::size_t size = 0;

  std::size_t received() const { return results_count * sizeof(TensorSums); }
};

PlacedLaunches place(std::span<const TensorTask> tasks) {
  PlacedLaunches placed{.launches = {}, .results_count = tasks.size()};
  Layout layout;
  std::size_t most_teams = 0;
  while (!tasks.empty()) {
    PlacedLaunch launch{.plan = {}, .first_result = placed.results_count - tasks.size()};
    launch.plan = take_launch(tasks);
    launch.tasks = layout.add<TensorTask>(launch.plan.tasks.size());
    launch.tasks_of_teams = layout.add<std::uint32_t>(launch.plan.tasks_of_teams.size());
    launch.finished = layout.add<std::uint32_t>(launch.plan.tasks.size());
    most_teams = std::max(most_teams, launch.plan.tasks_of_teams.size());
    placed.launches.push_back(std::move(launch));
  }
  placed.sent = layout.size();
  placed.partials = layout.add<TensorSums>(most_teams);  // of all launches: they follow each other
  placed.results = layout.add<TensorSums>(placed.results_count);
  placed.size = layout.size();
  return placed;
}

template <class T>
void put(const std::vector<T>& values, std::byte* to) {
  std::memcpy(to, values.data(), values.size() * sizeof(T));
}

/// All that is sent, as it lies on the GPU. No team has finished.
void put(const PlacedLaunches& placed, std::byte* to) {
  std::memset(to, 0, placed.sent);
  for (const PlacedLaunch& launch : placed.launches) {
    put(launch.plan.tasks, to + launch.tasks);
    put(launch.plan.tasks_of_teams, to + launch.tasks_of_teams);
  }
}

void start(void* kernel, const PlacedLaunches& placed, const PlacedLaunch& launch,
           std::uint64_t device, void* stream) {
  std::uint64_t arrays[] = {device + launch.tasks, device + launch.tasks_of_teams,
                            device + launch.finished, device + placed.partials,
                            device + placed.results + launch.first_result * sizeof(TensorSums)};
  static_assert(sizeof arrays == sizeof(Launch));
  void* parameters[] = {arrays};
  const auto teams = static_cast<unsigned>(launch.plan.tasks_of_teams.size());
  require(
      driver().cuLaunchKernel(kernel, teams, 1, 1, kThreads, 1, 1, 0, stream, parameters, nullptr),
      "cuLaunchKernel");
}

}  // namespace

void Buffer::require_size(std::size_t bytes) {
  if (bytes <= size_) return;
  free();
  if (place_ == Place::device) {
    require(driver().cuMemAlloc(&address_, bytes), "cuMemAlloc");
  } else {
    require(driver().cuMemHostAlloc(&memory_, bytes, 0), "cuMemHostAlloc");
  }
  size_ = bytes;
}

void Buffer::free() {
  if (size_ == 0) return;
  size_ = 0;
  if (place_ == Place::device) {
    driver().cuMemFree(address_);
  } else {
    driver().cuMemFreeHost(memory_);
  }
}

Measurer::~Measurer() {
  for (InContext& in : contexts_) {
    if (driver().cuCtxPushCurrent(in.context) != 0) continue;  // the process ends
    in.on_device.free();
    in.on_host.free();
    if (in.event) driver().cuEventDestroy(in.event);
    if (in.module) driver().cuModuleUnload(in.module);
    Driver::Context popped = nullptr;
    driver().cuCtxPopCurrent(&popped);
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

std::vector<TensorSums> Measurer::measure(std::span<const TensorTask> tasks, void* stream) {
  return unless_failed([&] {
    InContext& in = current();
    for (const TensorTask& task : tasks) {
      if (task.runs > 0) require_on_device(in, task.data);
    }
    return tasks.empty() ? std::vector<TensorSums>() : launch(in, tasks, stream);
  });
}

void Measurer::copy(std::uint64_t data, std::span<std::byte> to, void* stream) {
  unless_failed([&] {
    if (to.empty()) return;
    InContext& in = current();
    require_on_device(in, data);
    in.on_host.require_size(std::min(to.size(), kCopied));
    while (!to.empty()) {
      const std::size_t size = std::min(to.size(), kCopied);
      void* const host = in.on_host.memory();
      require(driver().cuMemcpyDtoHAsync(host, data, size, stream), "cuMemcpyDtoHAsync");
      wait(in, stream);
      std::memcpy(to.data(), host, size);
      data += size;
      to = to.subspan(size);
    }
  });
}

Measurer::InContext& Measurer::current() {
  Driver::Context context = nullptr;
  require(driver().cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  if (!context) throw Unavailable("no context of CUDA is current");
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
  require(driver().cuEventCreate(&in.event, kWithoutTiming), "cuEventCreate");
}

/// A kernel that reads other memory would end the job's context.
void Measurer::require_on_device(const InContext& in, std::uint64_t data) {
  int device = -1;
  require(driver().cuPointerGetAttribute(&device, kDeviceOrdinal, data), "cuPointerGetAttribute");
  if (device != in.device) throw Unavailable("a tensor lies on another GPU than the current one");
}

std::vector<TensorSums> Measurer::launch(InContext& in, std::span<const TensorTask> tasks,
                                         void* stream) {
  const PlacedLaunches placed = place(tasks);
  in.on_device.require_size(placed.size);
  in.on_host.require_size(std::max(placed.sent, placed.received()));
  void* const host = in.on_host.memory();
  const std::uint64_t device = in.on_device.address();
  put(placed, static_cast<std::byte*>(host));
  require(driver().cuMemcpyHtoDAsync(device, host, placed.sent, stream), "cuMemcpyHtoDAsync");
  for (const PlacedLaunch& launch : placed.launches) {
    start(in.kernel, placed, launch, device, stream);
  }
  require(driver().cuMemcpyDtoHAsync(host, device + placed.results, placed.received(), stream),
          "cuMemcpyDtoHAsync");
  wait(in, stream);
  std::vector<TensorSums> sums(tasks.size());
  std::memcpy(sums.data(), host, placed.received());
  return sums;
}

void Measurer::wait(const InContext& in, void* stream) {
  require(driver().cuEventRecord(in.event, stream), "cuEventRecord");
  require(driver().cuEventSynchronize(in.event), "cuEventSynchronize");
}

}  // namespace lockstep::gpu
