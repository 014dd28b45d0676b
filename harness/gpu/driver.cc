#include "harness/gpu/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::gpu {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

/// Sets the address of a function. `name`: in the library, which has a later version of some.
template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (!function) throw Unavailable(fmt::format("{} has no {}", kLibrary, name));
}

Driver load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Unavailable(fmt::format("{} cannot be loaded", kLibrary));
  Driver driver{};
  find(library, "cuCtxGetCurrent", driver.cuCtxGetCurrent);
  find(library, "cuCtxGetDevice", driver.cuCtxGetDevice);
  find(library, "cuCtxPushCurrent_v2", driver.cuCtxPushCurrent);
  find(library, "cuCtxPopCurrent_v2", driver.cuCtxPopCurrent);
  find(library, "cuPointerGetAttribute", driver.cuPointerGetAttribute);
  find(library, "cuModuleLoadData", driver.cuModuleLoadData);
  find(library, "cuModuleUnload", driver.cuModuleUnload);
  find(library, "cuModuleGetFunction", driver.cuModuleGetFunction);
  find(library, "cuMemAlloc_v2", driver.cuMemAlloc);
  find(library, "cuMemFree_v2", driver.cuMemFree);
  find(library, "cuMemHostAlloc", driver.cuMemHostAlloc);
  find(library, "cuMemFreeHost", driver.cuMemFreeHost);
  find(library, "cuMemcpyHtoDAsync_v2", driver.cuMemcpyHtoDAsync);
  find(library, "cuMemcpyDtoHAsync_v2", driver.cuMemcpyDtoHAsync);
  find(library, "cuLaunchKernel", driver.cuLaunchKernel);
  find(library, "cuEventCreate", driver.cuEventCreate);
  find(library, "cuEventDestroy_v2", driver.cuEventDestroy);
  find(library, "cuEventRecord", driver.cuEventRecord);
  find(library, "cuEventQuery", driver.cuEventQuery);
  find(library, "cuEventSynchronize", driver.cuEventSynchronize);
  find(library, "cuStreamIsCapturing", driver.cuStreamIsCapturing);
  find(library, "cuThreadExchangeStreamCaptureMode", driver.cuThreadExchangeStreamCaptureMode);
  find(library, "cuGetErrorName", driver.cuGetErrorName);
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver loaded = load();
  return loaded;
}

void require(Driver::Result result, const char* function) {
  if (result == 0) return;
  const char* name = nullptr;
  if (driver().cuGetErrorName(result, &name) != 0 || !name) name = "an unknown error";
  throw Unavailable(fmt::format("{} of CUDA's driver: {}", function, name));
}

}  // namespace lockstep::gpu
