#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::gpu {

/// A stand-in for CUDA's driver, in a library of that name. It has the functions that Lockstep
/// uses, its GPU is this process's memory, and its kernel the emulated one. As on a GPU, nothing
/// that a stream was given is done before somebody waits or asks for it, and streams do not wait
/// for each other. Any thread may call it; the members are those of the test's thread.
struct StandinDriver {
  std::vector<std::string> calls;   ///< apart from those around each
  std::string failing;              ///< the function that fails
  std::uint64_t context = 1;        ///< the current one; 0: none
  std::map<std::uint64_t, int> on;  ///< the GPUs of contexts; 0 for others
  int tensors_on = 0;               ///< the GPU that all memory lies on
  int allocated = 0;                ///< modules, events and memory that are not freed
  int launches = 0;
  std::atomic<void*> capturing = nullptr;  ///< the stream that captures a CUDA graph; null: none
  std::atomic<bool> hangs = false;         ///< it does nothing
  std::atomic<int> captures_ended = 0;     ///< by a call that is not allowed beside them
};

/// That of this process.
StandinDriver& standin_driver();

/// As at first. Nothing that a stream was given is left.
void reset_standin_driver();

/// In which this thread calls the driver while graphs are captured. 0: the one it began in.
int capture_mode_of_thread();

/// Work of the job, which is done before what the stream is given later.
void give_to_stream(void* stream, std::function<void()> work);

}  // namespace lockstep::gpu
