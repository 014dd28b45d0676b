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
  /// on one machine share its GPUs, at most 256 at a time; empty: this process has them to itself.
  /// Made where it is not. What an ended process held is given back when somebody needs it; until
  /// then it counts as used.
  std::filesystem::path ledger = {};
};

/// Opens virtual devices of type PrivateUse1, called "sim": memory of the host, kernels of the CPU,
/// and the rules of a GPU.
///
/// Rules, by torch's own code and in its words: tensors of one operator are on one device
/// ("Expected all tensors to be on the same device"), but for indices and 0-dim tensors on the CPU
/// that are only read; a device that is not there is an "invalid device ordinal"; a gradient on the
/// wrong device is the autograd engine's "invalid gradient"; the engine runs the backward of every
/// device in a thread of its own. Data goes from device to device only where a copy is asked for.
///
/// Memory: what an operator allocates or returns is charged to its device by the byte and given
/// back when the last tensor of the storage is gone, on whatever thread; tensors of a collective
/// are let go by its backend, perhaps a moment after `wait`. What does not fit is a
/// c10::OutOfMemoryError in the manner of CUDA's, with the bytes that were wanted, are free, and
/// the capacity. Charged are results, not what a kernel needs while it runs: where a GPU's
/// workspace does not fit, this does. There is no caching and no rounding up.
///
/// Results equal the CPU's bit for bit, as every kernel is the CPU's, in the same order. Known
/// exception: `scaled_dot_product_attention`, where composite code of torch chooses a kernel by the
/// type of the device. Not there: LSTM and GRU, which torch runs as one fused cell on such devices,
/// and sparse tensors; both are errors. Autocast of the CPU does not reach these devices.
///
/// Not seen, though a GPU would refuse it: reads of the host through `data_ptr`; generators of the
/// CPU, whose default one draws for all devices, in an order that is open where two of their
/// threads draw; 0-dim tensors of the CPU in an operator of CUDA that takes none. Not seen, and a
/// GPU does not refuse it either: `mutable_grad() =` with a tensor on another device, and a 0-dim
/// gradient on another device, which the engine moves. Nothing is asynchronous: a program that
/// lacks a synchronisation is right here.
///
/// Once per process, before its first backward: the autograd engine makes its device threads then.
/// Never in a process that is yet to fork. Takes 15 ms; a process that does not call it pays
/// nothing. Throws Error (internal) when called again or for a count that is no count, Error
/// (usage) for a ledger that cannot be used.
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

/// Any thread. Throws c10::Error where there is no such device.
VirtualMemory virtual_memory(int index);

/// `peak` of every device becomes `live`.
void reset_peak_virtual_memory();

/// The CPU tensor of the same storage, shape and strides, without autograd; `tensor` itself when it
/// is on no virtual device. Keeps the memory alive and is charged to nobody. Resizing one of the
/// two is not seen by the other.
at::Tensor cpu_alias(const at::Tensor& tensor);

}  // namespace lockstep
