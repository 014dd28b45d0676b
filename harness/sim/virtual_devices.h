#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep {

struct VirtualDeviceOptions {
  int count = 2;                              ///< devices sim:0 to sim:count-1, at most 64
  std::optional<std::int64_t> capacity = {};  ///< bytes of each; absent: without limit
  /// Where live bytes are counted. Processes that name the same file share the devices, as ranks
  /// on one machine share its GPUs; empty: this process has them to itself. Made where it is not.
  std::filesystem::path ledger = {};
};

/// Opens virtual devices of type PrivateUse1, called "sim": memory of the host, kernels of the CPU,
/// and the rules of a GPU. [contract: fill in: same-device check, device guard, engine threads,
/// capacity, which operators are known to differ from the CPU's bits.]
///
/// Once per process, before its first backward: the autograd engine makes its device threads then.
/// Never in a process that is yet to fork. Throws Error (internal) when called again.
void open_virtual_devices(const VirtualDeviceOptions& options);

/// Whether this process has any.
bool has_virtual_devices();

/// sim:`index`. Whether it is there is checked by whoever uses it, as with a GPU.
at::Device virtual_device(int index);

/// Bytes on one device.
struct VirtualMemory {
  std::optional<std::int64_t> capacity;
  std::int64_t live = 0;  ///< of this process
  std::int64_t peak = 0;  ///< the most that `live` was since the last reset
  std::int64_t used = 0;  ///< of all processes that share it
};
VirtualMemory virtual_memory(int index);

/// `peak` of every device becomes `live`.
void reset_peak_virtual_memory();

/// The CPU tensor of the same storage, shape and strides; `tensor` itself when it is on the CPU.
at::Tensor cpu_alias(const at::Tensor& tensor);

}  // namespace lockstep
