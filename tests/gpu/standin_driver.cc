#include "tests/gpu/standin_driver.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "harness/gpu/team.h"
#include "tests/gpu/emulated_kernel.h"

namespace lockstep::gpu {

namespace {

constexpr int kFailure = 999;
constexpr int kIsNotReady = 600;
constexpr int kImplicitCapture = 906;
constexpr int kRelaxed = 2;

/// What a stream was given.
struct Stream {
  std::deque<std::function<void()>> left;
  std::size_t done = 0;

  std::size_t given() const { return done + left.size(); }
};

/// A place in a stream.
struct Event {
  void* stream = nullptr;
  std::size_t place = 0;
};

std::recursive_mutex mutex;
std::map<void*, Stream> streams;
std::map<void*, Event> events;
std::set<void*> memory;
thread_local int capture_mode = 0;
thread_local std::vector<void*> pushed;                       // contexts
std::thread::id thread_of_test = std::this_thread::get_id();  // only it has a context of its own

/// That of this thread; null: none.
void* current_context() {
  if (!pushed.empty()) return pushed.back();
  if (std::this_thread::get_id() != thread_of_test) return nullptr;
  return reinterpret_cast<void*>(standin_driver().context);
}

/// Whether a call fails that is not noted.
bool fails_silently(const char* function) {
  const std::scoped_lock lock(mutex);
  return standin_driver().failing == function;
}

/// Whether a call fails. Notes it.
bool fails(const char* function) {
  const std::scoped_lock lock(mutex);
  StandinDriver& driver = standin_driver();
  driver.calls.emplace_back(function);
  return driver.failing == function;
}

/// The same for a call that ends a capture, unless its thread says that it is beside it.
bool fails_in_capture(const char* function) {
  StandinDriver& driver = standin_driver();
  if (driver.capturing && capture_mode != kRelaxed) ++driver.captures_ended;
  return fails(function);
}

void do_until(Stream& stream, std::size_t place) {
  while (stream.done < place) {
    const auto work = std::move(stream.left.front());
    stream.left.pop_front();
    ++stream.done;
    work();
  }
}

/// As memory is freed.
void do_all() {
  const std::scoped_lock lock(mutex);
  for (auto& [name, stream] : streams) do_until(stream, stream.given());
}

bool has_done(void* event) {
  const std::scoped_lock lock(mutex);
  if (standin_driver().hangs) return false;
  do_until(streams[events[event].stream], events[event].place);
  return true;
}

int given_to(void* stream, const char* function, std::function<void()> work) {
  if (fails(function)) return kFailure;
  give_to_stream(stream, std::move(work));
  return 0;
}

/// As memory is that others have used.
void* allocated(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  constexpr int kOfOthers = 0x5a;
  const std::scoped_lock lock(mutex);
  ++standin_driver().allocated;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const made = std::memset(std::aligned_alloc(kAlignment, size), kOfOthers, size);
  memory.insert(made);
  return made;
}

int freed(void* one) {
  const std::scoped_lock lock(mutex);
  --standin_driver().allocated;
  memory.erase(one);
  std::free(one);
  return 0;
}

void run_all(const Launch& launch, unsigned teams) {
  std::vector<std::uint32_t> order(teams);
  std::iota(order.rbegin(), order.rend(), 0U);
  run_emulated(launch, order);
}

}  // namespace

StandinDriver& standin_driver() {
  const char* const failing = std::getenv("STANDIN_FAILS");
  static StandinDriver driver{.calls = {}, .failing = failing ? failing : ""};
  return driver;
}

void reset_standin_driver() {
  const std::scoped_lock lock(mutex);
  StandinDriver& driver = standin_driver();
  driver.calls.clear();
  driver.failing.clear();
  driver.context = 1;
  driver.on.clear();
  driver.tensors_on = driver.allocated = driver.launches = 0;
  driver.capturing = nullptr;
  driver.hangs = false;
  driver.captures_ended = 0;
  for (void* const lost : std::exchange(memory, {})) std::free(lost);
  streams.clear();
  events.clear();
  thread_of_test = std::this_thread::get_id();
}

int capture_mode_of_thread() { return capture_mode; }

void give_to_stream(void* stream, std::function<void()> work) {
  const std::scoped_lock lock(mutex);
  streams[stream].left.push_back(std::move(work));
}

}  // namespace lockstep::gpu

using namespace lockstep::gpu;

extern "C" {

int cuCtxGetCurrent(void** context) {
  *context = current_context();
  return fails("cuCtxGetCurrent") ? kFailure : 0;
}

int cuCtxGetDevice(int* device) {
  *device = standin_driver().on[standin_driver().context];
  return fails("cuCtxGetDevice") ? kFailure : 0;
}

int cuCtxPushCurrent_v2(void* context) {
  if (fails_silently("cuCtxPushCurrent")) return kFailure;
  pushed.push_back(context);
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  if (fails_silently("cuCtxPopCurrent") || pushed.empty()) return kFailure;
  *context = pushed.back();
  pushed.pop_back();
  return 0;
}

int cuPointerGetAttribute(void* value, int attribute, std::uint64_t) {
  constexpr int kDeviceOrdinal = 9;
  if (fails("cuPointerGetAttribute") || attribute != kDeviceOrdinal) return kFailure;
  std::memcpy(value, &standin_driver().tensors_on, sizeof(int));
  return 0;
}

int cuModuleLoadData(void** module, const void* image) {
  if (fails("cuModuleLoadData") || !image) return kFailure;
  *module = allocated(1);
  return 0;
}

int cuModuleUnload(void* module) {
  fails("cuModuleUnload");
  return freed(module);
}

int cuModuleGetFunction(void** function, void*, const char* name) {
  if (fails("cuModuleGetFunction")) return kFailure;
  if (std::strcmp(name, "lockstep_measure") != 0) return kFailure;
  *function = function;
  return 0;
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (fails_in_capture("cuMemAlloc")) return kFailure;
  *address = reinterpret_cast<std::uint64_t>(allocated(bytes));
  return 0;
}

int cuMemFree_v2(std::uint64_t address) {
  fails_in_capture("cuMemFree");
  do_all();
  return freed(reinterpret_cast<void*>(address));
}

int cuMemHostAlloc(void** pinned, std::size_t bytes, unsigned) {
  if (fails_in_capture("cuMemHostAlloc")) return kFailure;
  *pinned = allocated(bytes);
  return 0;
}

int cuMemFreeHost(void* pinned) {
  fails_in_capture("cuMemFreeHost");
  do_all();
  return freed(pinned);
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  return given_to(stream, "cuMemcpyHtoDAsync",
                  [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  return given_to(stream, "cuMemcpyDtoHAsync",
                  [=] { std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned,
                   unsigned, unsigned, void* stream, void** parameters, void**) {
  if (!function || block_x != kThreads) return kFailure;
  Launch launch;
  std::memcpy(&launch, parameters[0], sizeof launch);
  ++standin_driver().launches;
  return given_to(stream, "cuLaunchKernel", [=] { run_all(launch, grid_x); });
}

int cuEventCreate(void** event, unsigned) {
  if (fails_in_capture("cuEventCreate")) return kFailure;
  *event = allocated(1);
  return 0;
}

int cuEventDestroy_v2(void* event) {
  fails("cuEventDestroy");
  const std::scoped_lock lock(mutex);
  events.erase(event);
  return freed(event);
}

int cuEventRecord(void* event, void* stream) {
  if (fails("cuEventRecord")) return kFailure;
  const std::scoped_lock lock(mutex);
  events[event] = {stream, streams[stream].given()};
  return 0;
}

int cuEventQuery(void* event) {
  if (fails_in_capture("cuEventQuery") || !current_context()) return kFailure;
  return has_done(event) ? 0 : kIsNotReady;
}

int cuEventSynchronize(void* event) {
  if (fails_in_capture("cuEventSynchronize") || !current_context()) return kFailure;
  while (!has_done(event)) std::this_thread::yield();
  return 0;
}

int cuStreamIsCapturing(void* stream, int* status) {
  if (fails("cuStreamIsCapturing")) return kFailure;
  void* const capturing = standin_driver().capturing;
  if (capturing && !stream) return kImplicitCapture;
  *status = capturing == stream && capturing ? 1 : 0;
  return 0;
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  if (fails_silently("cuThreadExchangeStreamCaptureMode")) return kFailure;
  std::swap(*mode, capture_mode);
  return 0;
}

int cuGetErrorName(int, const char** name) {
  *name = "STANDIN_ERROR";
  return 0;
}

}  // extern "C"
