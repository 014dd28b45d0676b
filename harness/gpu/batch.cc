#include "harness/gpu/batch.h"

#include <algorithm>
#include <cstring>

#include "harness/gpu/launch_plan.h"
#include "harness/gpu/team.h"

namespace lockstep::gpu {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr unsigned kWithoutTiming = 2;       // CU_EVENT_DISABLE_TIMING
constexpr int kRelaxed = 2;                  // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr Driver::Result kIsNotReady = 600;  // CUDA_ERROR_NOT_READY

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

void give(void* kernel, const PlacedLaunches& placed, const PlacedLaunch& launch,
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

void give(void* kernel, const PlacedLaunches& placed, std::uint64_t device, std::byte* host,
          void* stream) {
  put(placed, host);
  require(driver().cuMemcpyHtoDAsync(device, host, placed.sent, stream), "cuMemcpyHtoDAsync");
  for (const PlacedLaunch& launch : placed.launches) give(kernel, placed, launch, device, stream);
  require(driver().cuMemcpyDtoHAsync(host, device + placed.results, placed.received(), stream),
          "cuMemcpyDtoHAsync");
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

CurrentContext::CurrentContext(Driver::Context context) {
  require(driver().cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

CurrentContext::~CurrentContext() {
  Driver::Context popped = nullptr;
  driver().cuCtxPopCurrent(&popped);
}

BesideCaptures::BesideCaptures() : mode_(kRelaxed) {
  require(driver().cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

BesideCaptures::~BesideCaptures() { driver().cuThreadExchangeStreamCaptureMode(&mode_); }

BatchMemory::Slot* BatchMemory::unused() {
  const auto found = std::ranges::find(slots_, false, &Slot::is_used);
  return found == slots_.end() ? nullptr : &*found;
}

BatchMemory::Slot& BatchMemory::take() {
  std::unique_lock lock(mutex_);
  if (!unused() && slots_.size() < kMost) {
    void* event = nullptr;
    require(driver().cuEventCreate(&event, kWithoutTiming), "cuEventCreate");
    slots_.emplace_back().event = event;
  }
  is_given_back_.wait(lock, [&] { return unused() != nullptr; });
  Slot& slot = *unused();
  slot.is_used = true;
  return slot;
}

void BatchMemory::give_back(Slot& slot) {
  {
    const std::scoped_lock lock(mutex_);
    slot.is_used = slot.is_lost;
  }
  is_given_back_.notify_one();
}

bool BatchMemory::free() {
  const bool is_unused = std::ranges::none_of(slots_, &Slot::is_lost);
  for (Slot& slot : slots_) {
    if (slot.is_lost) continue;
    slot.on_device.free();
    slot.on_host.free();
    driver().cuEventDestroy(slot.event);
  }
  slots_.clear();
  return is_unused;
}

Batch::Batch(BatchMemory& memory, Driver::Context context)
    : memory_(memory), context_(context), slot_(memory.take()) {}

Batch::~Batch() {
  try {
    slot_.is_lost = !is_done();
  } catch (const Unavailable&) {  // the context has failed: nothing runs in it
  }
  memory_.give_back(slot_);
}

void Batch::start(void* kernel, std::span<const TensorTask> tasks,
                  std::span<const DeviceBytes> copies, void* stream) {
  const PlacedLaunches placed = place(tasks);
  Layout layout;
  layout.add<std::byte>(std::max(placed.sent, placed.received()));
  std::vector<std::size_t> places;
  for (const DeviceBytes& bytes : copies) places.push_back(layout.add<std::byte>(bytes.size));
  slot_.on_device.require_size(placed.size);
  slot_.on_host.require_size(layout.size());
  auto* const host = static_cast<std::byte*>(slot_.on_host.memory());
  if (!tasks.empty()) give(kernel, placed, slot_.on_device.address(), host, stream);
  sums_ = tasks.size();
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto& [data, size] = copies[i];
    copies_.emplace_back(host + places[i], size);
    if (size == 0) continue;
    require(driver().cuMemcpyDtoHAsync(host + places[i], data, size, stream), "cuMemcpyDtoHAsync");
  }
  require(driver().cuEventRecord(slot_.event, stream), "cuEventRecord");
}

bool Batch::is_done() const {
  const BesideCaptures beside_captures;
  const CurrentContext current(context_);
  const Driver::Result result = driver().cuEventQuery(slot_.event);
  if (result == kIsNotReady) return false;
  require(result, "cuEventQuery");
  return true;
}

void Batch::wait() const {
  const BesideCaptures beside_captures;
  const CurrentContext current(context_);
  require(driver().cuEventSynchronize(slot_.event), "cuEventSynchronize");
}

std::span<const TensorSums> Batch::sums() const {
  return {static_cast<const TensorSums*>(slot_.on_host.memory()), sums_};
}

std::span<const std::byte> Batch::copy(std::size_t number) const { return copies_.at(number); }

}  // namespace lockstep::gpu
