#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

class Rank;

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

/// What torch.cuda.set_device does: tensors made on a device without an index, and kernels whose
/// author forgot to say where, are on `device` from now on, in this thread. Nothing on the CPU.
/// Throws c10::Error where there is no such device.
void set_current_device(at::Device device);

/// The current device of the kind of `like`, in this thread.
at::Device current_device(at::Device like);

}  // namespace lockstep
