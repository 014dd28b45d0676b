#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

class Module;
class Rank;

/// Fragments of torch's error messages about devices. They are stable across releases, and the same
/// for virtual devices and GPUs.
namespace device_error {
/// A function returned a gradient with dimensions on a device other than its input's.
inline constexpr const char* kWrongGradient =
    "returned an invalid gradient at index 0 - expected device";
inline constexpr const char* kMixed = "Expected all tensors to be on the same device";
/// A functorch gradient moves from one device to another.
inline constexpr const char* kNoStorage = "Cannot access storage of TensorWrapper";
inline constexpr const char* kOutOfMemory = "out of memory. Tried to allocate";
inline constexpr const char* kNoSuchDevice = "invalid device ordinal";
}  // namespace device_error

/// The devices of a node, shared by its ranks.
struct NodeDevices {
  int count = 2;
  /// Bytes of each virtual device; absent: no limit. Other devices have their own memory.
  std::optional<std::int64_t> capacity = {};
  int node = 0;  ///< ranks with the same number share its devices
};

/// The devices of this rank's node, `options.count` of the kind of its cell:
///   cpu    the CPU, so many times
///   sim    sim:0 and so on, opened here. All ranks of the node share a given capacity
///   cuda   cuda:0 and so on, as CUDA_VISIBLE_DEVICES numbers them; cuda:0 and the CPU for two
///          devices on a machine with one GPU
/// The reference computes on one device of this kind: its own, so many times, without a capacity.
///
/// Call once per rank, before its group and its first backward. Loads torch's
/// CUDA library into this process if needed. Throws Error (usage) if the GPUs cannot be used. Does
/// not communicate.
std::vector<at::Device> open_devices(Rank& rank, const NodeDevices& options);

/// For `Rank::device`: opens the device of a rank that trains on one.
at::Device open_own_device(const Rank& rank);

/// Runs `turn` on one rank after the other. If ranks load a model onto a shared device, the same
/// rank runs out of memory in every run.
void take_turns(Rank& rank, const std::function<void()>& turn);

/// Notes, in a step, the bytes of parameters and buffers on each device ("weights on sim:1",
/// Kind::memory). Notes nothing in a cell on the CPU or in the reference.
void observe_placement(Rank& rank, const Module& model);

/// Notes, at the end of a step, the bytes of this rank's tensors on its own device ("allocated on
/// sim:0", Kind::memory): a rank that computes beside its device has none there. Notes nothing on
/// the CPU.
void observe_allocation(Rank& rank);

/// Like torch.cuda.set_device, for this thread: tensors made on a device without an index, and
/// kernels launched without a device, use `device` from now on. Does nothing on the CPU. Throws
/// c10::Error if the device does not exist.
void set_current_device(at::Device device);

/// This thread's current device of the kind of `like`.
at::Device current_device(at::Device like);

}  // namespace lockstep
