#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

class Module;
class Rank;

/// What torch says of devices, in fragments that stay the same between releases and are the same of
/// virtual devices and GPUs.
namespace device_error {
/// A function returned a gradient, with dimensions, on another device than its input's.
inline constexpr const char* kWrongGradient =
    "returned an invalid gradient at index 0 - expected device";
inline constexpr const char* kMixed = "Expected all tensors to be on the same device";
/// functorch's gradient goes from one device to another.
inline constexpr const char* kNoStorage = "Cannot access storage of TensorWrapper";
inline constexpr const char* kOutOfMemory = "out of memory. Tried to allocate";
inline constexpr const char* kNoSuchDevice = "invalid device ordinal";
}  // namespace device_error

/// The devices of a node, which its ranks share.
struct NodeDevices {
  int count = 2;
  /// Bytes of each virtual device; absent: without limit. Other devices have what they have.
  std::optional<std::int64_t> capacity = {};
  int node = 0;  ///< ranks that name the same one share its devices
};

/// The devices of this rank's node, `options.count` of the kind of its cell:
///   cpu    the CPU, so many times
///   sim    sim:0 and so on, opened here. With a capacity, all ranks of the node use it up together
///   cuda   cuda:0 and so on, as CUDA_VISIBLE_DEVICES numbers them; cuda:0 and the CPU for two
///          devices on a machine with one GPU
/// The reference computes on the CPU, whatever the kind.
///
/// Once per rank, before its first tensor, its group and its first backward. Loads torch's CUDA
/// library into this process where it is needed. Throws Error (usage) when the GPUs cannot be used.
/// Does not communicate.
std::vector<at::Device> open_devices(Rank& rank, const NodeDevices& options);

/// Runs `turn` on one rank after the other. Where ranks load a model onto a shared device, the same
/// one runs out of memory in every run.
void take_turns(Rank& rank, const std::function<void()>& turn);

/// Notes, in a step, how many bytes of parameters and buffers lie on each device ("weights on
/// sim:1", Kind::memory): where a model is. Nothing in a cell on the CPU and in the reference.
void observe_placement(Rank& rank, const Module& model);

/// What torch.cuda.set_device does: tensors made on a device without an index, and kernels whose
/// author forgot to say where, are on `device` from now on, in this thread. Nothing on the CPU.
/// Throws c10::Error where there is no such device.
void set_current_device(at::Device device);

/// The current device of the kind of `like`, in this thread.
at::Device current_device(at::Device like);

}  // namespace lockstep
