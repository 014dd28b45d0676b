#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace lockstep::gpu {

/// Why no GPU measures: one sentence. The tensors are then copied and measured on the CPU.
class Unavailable : public std::runtime_error {
  using runtime_error::runtime_error;
};

/// The functions of CUDA's driver that are used, from the library that the process has loaded, or
/// would load: Lockstep is linked with none. Those of `cuda.h`, whose types are pointers or
/// numbers.
struct Driver {
  using Result = int;  ///< 0: success
  using Context = void*;
  using Address = std::uint64_t;

  Result (*cuCtxGetCurrent)(Context* context);
  Result (*cuCtxGetDevice)(int* device);
  Result (*cuCtxPushCurrent)(Context context);
  Result (*cuCtxPopCurrent)(Context* context);
  Result (*cuPointerGetAttribute)(void* value, int attribute, Address address);
  Result (*cuModuleLoadData)(void** module, const void* image);
  Result (*cuModuleUnload)(void* module);
  Result (*cuModuleGetFunction)(void** function, void* module, const char* name);
  Result (*cuMemAlloc)(Address* address, std::size_t bytes);
  Result (*cuMemFree)(Address address);
  Result (*cuMemHostAlloc)(void** memory, std::size_t bytes, unsigned flags);
  Result (*cuMemFreeHost)(void* memory);
  Result (*cuMemcpyHtoDAsync)(Address to, const void* from, std::size_t bytes, void* stream);
  Result (*cuMemcpyDtoHAsync)(void* to, Address from, std::size_t bytes, void* stream);
  Result (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                           void* stream, void** parameters, void** extra);
  Result (*cuEventCreate)(void** event, unsigned flags);
  Result (*cuEventDestroy)(void* event);
  Result (*cuEventRecord)(void* event, void* stream);
  Result (*cuEventQuery)(void* event);
  Result (*cuEventSynchronize)(void* event);
  Result (*cuStreamIsCapturing)(void* stream, int* status);
  Result (*cuThreadExchangeStreamCaptureMode)(int* mode);
  Result (*cuGetErrorName)(Result result, const char** name);
};

/// Throws Unavailable if the library, or a function, is missing.
const Driver& driver();

/// Throws Unavailable with the name of the function unless `result` is success.
void require(Driver::Result result, const char* function);

}  // namespace lockstep::gpu
