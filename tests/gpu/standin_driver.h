#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep::gpu {

/// A stand-in for CUDA's driver, in a library of that name. It has the functions that Lockstep
/// uses, its GPU is this process's memory, and its kernel the emulated one. As on a GPU, nothing
/// that a stream was given is done before somebody waits for it, and streams do not wait for each
/// other.
struct StandinDriver {
  std::vector<std::string> calls;
  std::string failing;              ///< the function that fails
  std::uint64_t context = 1;        ///< the current one; 0: none
  std::map<std::uint64_t, int> on;  ///< the GPUs of contexts; 0 for others
  int tensors_on = 0;               ///< the GPU that all memory lies on
  int allocated = 0;                ///< modules, events and memory that are not freed
  int launches = 0;
};

/// That of this process.
StandinDriver& standin_driver();

/// Work of the job, which is done before what the stream is given later.
void give_to_stream(void* stream, std::function<void()> work);

}  // namespace lockstep::gpu
