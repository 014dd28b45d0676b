#include "tests/gpu/standin_driver.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "harness/gpu/team.h"
#include "tests/gpu/emulated_kernel.h"

namespace lockstep::gpu {

StandinDriver& standin_driver() {
  static StandinDriver driver = [] {
    StandinDriver made;
    const char* const failing = std::getenv("STANDIN_FAILS");
    made.failing = failing ? failing : "";
    return made;
  }();
  return driver;
}

namespace {

constexpr int kFailure = 999;
using Works = std::vector<std::function<void()>>;
std::map<void*, Works> given;              // to each stream, and not done
std::map<void*, void*> streams_of_events;  // that they were recorded in

/// Whether a call fails. Notes it.
bool fails(const char* function) {
  StandinDriver& driver = standin_driver();
  driver.calls.emplace_back(function);
  return driver.failing == function;
}

void do_all_of(void* stream) {
  for (const auto& work : std::exchange(given[stream], {})) work();
}

/// As memory is freed.
void do_all() {
  for (const auto& [stream, works] : given) do_all_of(stream);
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
  ++standin_driver().allocated;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return std::memset(std::aligned_alloc(kAlignment, size), kOfOthers, size);
}

int freed(void* memory) {
  --standin_driver().allocated;
  std::free(memory);
  return 0;
}

void run_all(const Launch& launch, unsigned teams) {
  std::vector<std::uint32_t> order(teams);
  std::iota(order.rbegin(), order.rend(), 0U);
  run_emulated(launch, order);
}

}  // namespace

void give_to_stream(void* stream, std::function<void()> work) {
  given[stream].push_back(std::move(work));
}

}  // namespace lockstep::gpu

using namespace lockstep::gpu;

extern "C" {

int cuCtxGetCurrent(void** context) {
  *context = reinterpret_cast<void*>(standin_driver().context);
  return fails("cuCtxGetCurrent") ? kFailure : 0;
}

int cuCtxGetDevice(int* device) {
  *device = standin_driver().on[standin_driver().context];
  return fails("cuCtxGetDevice") ? kFailure : 0;
}

int cuCtxPushCurrent_v2(void*) { return fails("cuCtxPushCurrent") ? kFailure : 0; }

int cuCtxPopCurrent_v2(void**) { return fails("cuCtxPopCurrent") ? kFailure : 0; }

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
  if (fails("cuMemAlloc")) return kFailure;
  *address = reinterpret_cast<std::uint64_t>(allocated(bytes));
  return 0;
}

int cuMemFree_v2(std::uint64_t address) {
  fails("cuMemFree");
  do_all();
  return freed(reinterpret_cast<void*>(address));
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (fails("cuMemHostAlloc")) return kFailure;
  *memory = allocated(bytes);
  return 0;
}

int cuMemFreeHost(void* memory) {
  fails("cuMemFreeHost");
  do_all();
  return freed(memory);
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
  if (fails("cuEventCreate")) return kFailure;
  *event = allocated(1);
  return 0;
}

int cuEventDestroy_v2(void* event) {
  fails("cuEventDestroy");
  return freed(event);
}

int cuEventRecord(void* event, void* stream) {
  if (fails("cuEventRecord")) return kFailure;
  streams_of_events[event] = stream;
  return 0;
}

int cuEventSynchronize(void* event) {
  if (fails("cuEventSynchronize")) return kFailure;
  do_all_of(streams_of_events[event]);
  return 0;
}

int cuGetErrorName(int, const char** name) {
  *name = "STANDIN_ERROR";
  return 0;
}

}  // extern "C"
