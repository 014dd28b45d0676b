#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace lockstep {

struct VirtualDeviceOptions {
  int count = 2;                              ///< devices sim:0 to sim:count-1, at most 64
  std::optional<std::int64_t> capacity = {};  ///< bytes of each; absent: unlimited
  /// File that counts live bytes; created if missing. Processes that name the same file share the
  /// devices, as ranks on one machine share its GPUs, at most 256 at a time. Empty: only this
  /// process uses them. Bytes of an ended process count as used until another process needs them.
  std::filesystem::path ledger = {};
};

/// Opens virtual devices of type PrivateUse1, called "sim": host memory, CPU kernels, and the rules
/// of a GPU.
///
/// Rules come from torch's own code, in its words. Tensors of one operator are on one device
/// ("Expected all tensors to be on the same device"), except indices and 0-dim CPU tensors that are
/// only read. A missing device is an "invalid device ordinal". A gradient on the wrong device is
/// the autograd engine's "invalid gradient". The engine runs the backward of every device in a
/// separate thread. Data moves between devices only by explicit copies.
///
/// Memory: each allocation or result of an operator is charged to its device by the byte. It is
/// released with the last tensor of the storage, on any thread. A backend may release tensors of a
/// collective shortly after `wait`. An allocation that does not fit raises a c10::OutOfMemoryError
/// like CUDA's, with the requested bytes, the free bytes and the capacity. Only results are
/// charged, not temporary memory of kernels, so a GPU may run out of memory for a workspace
/// although the sim device does not. There is no caching and no rounding up.
///
/// Results equal the CPU's bit for bit, because every kernel is the CPU's, in the same order. Known
/// exception: `scaled_dot_product_attention`, for which torch's composite code chooses a kernel by
/// device type. Unsupported are LSTM and GRU, which torch runs as one fused cell on such devices,
/// and sparse tensors; both raise errors. Autocast of this type casts products of matrices, and
/// nothing else that a GPU's would.
///
/// Undetected, although a GPU would refuse it: host reads through `data_ptr`, and 0-dim CPU tensors
/// in a CUDA operator that takes none. CPU generators are accepted, too; the default one serves all
/// devices, in undefined order if two of their threads draw. Also undetected, as on a GPU:
/// `mutable_grad() =` with a tensor on another device, and a 0-dim gradient on another device,
/// which the engine moves. All work is synchronous, so a program that lacks a synchronisation is
/// correct here.
///
/// Call once per process, before its first backward, in which the autograd engine creates its
/// device threads. Never call it in a process that will fork. Takes 15 ms; a process that does not
/// call it has no cost. Throws Error (internal) for a second call or an invalid count, Error
/// (usage) for a ledger that cannot be used.
void open_virtual_devices(const VirtualDeviceOptions& options);

/// Whether this process has any.
bool has_virtual_devices();

/// sim:`index`. Its users check whether it exists, as with a GPU.
at::Device virtual_device(int index);

/// Bytes on one device.
struct VirtualMemory {
  std::optional<std::int64_t> capacity;
  std::int64_t live = 0;  ///< of this process
  std::int64_t peak = 0;  ///< maximum of `live` since the last reset
  std::int64_t used = 0;  ///< of all processes that share it
};

/// Any thread. Throws c10::Error if there is no such device.
VirtualMemory virtual_memory(int index);

/// Sets `peak` of every device to `live`.
void reset_peak_virtual_memory();

/// The CPU tensor of the same storage, shape and strides, without autograd; `tensor` itself if it
/// is not on a virtual device. Keeps the memory alive and is not charged. Resizing one of the two
/// does not affect the other.
at::Tensor cpu_alias(const at::Tensor& tensor);

}  // namespace lockstep
