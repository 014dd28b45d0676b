#include "harness/train/rank/devices.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "harness/sim/virtual_devices.h"
#include "harness/train/rank/device_memory.h"
#include "harness/train/rank/loaded_torch.h"
#include "harness/train/rank/rank.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

using Devices = std::vector<at::Device>;

Error cannot_use_gpus(const std::string& why, const std::string& remedy) {
  return {Error::Kind::usage, fmt::format("GPUs cannot be used: {}. Remedy: {}.", why, remedy)};
}

/// Values on GPUs are compared with each other and, by their tables, with those of the CPU. So
/// products of float32 have all its digits, and a second run has the same bits.
void compute_exactly() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(false);
  context.setAllowTF32CuDNN(false);
  context.setAllowFP16ReductionCuBLAS(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setDeterministicCuDNN(true);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
}

/// Lockstep links only torch's CPU libraries: the others double the start time of every rank.
void load_cuda() {
  const fs::path library = fs::path(loaded_torch().file).parent_path() / "libtorch_cuda.so";
  if (!fs::exists(library)) {
    throw cannot_use_gpus(fmt::format("this torch has no {}", library.string()),
                          "build Lockstep with a torch for CUDA, or run with --device sim");
  }
  if (!::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    throw cannot_use_gpus(fmt::format("torch's CUDA library cannot be loaded: {}", ::dlerror()),
                          "install torch anew, with the CUDA packages that it names");
  }
  compute_exactly();
}

int count_gpus() {
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDA()) return 0;  // torch throws without a driver; be brief
  try {
    return hooks.deviceCount();
  } catch (const c10::Error& error) {
    throw cannot_use_gpus(error.what_without_backtrace(), "see 'lockstep doctor'");
  }
}

std::string first_entries(const std::string& list, int count) {
  std::size_t end = std::string::npos;
  for (int i = 0; i < count; ++i) {
    end = list.find(',', i == 0 ? 0 : end + 1);
    if (end == std::string::npos) return list;
  }
  return list.substr(0, end);
}

std::string first_indices(int count) {
  std::string list;
  for (int i = 0; i < count; ++i) list += (i > 0 ? "," : "") + std::to_string(i);
  return list;
}

/// A node gets no more GPUs than it was given: several may be simulated on one machine. The driver
/// reads the variable when CUDA starts.
void hide_other_gpus(int count) {
  constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
  const char* const given = std::getenv(kVisible);
  const std::string shown = given ? first_entries(given, count) : first_indices(count);
  ::setenv(kVisible, shown.c_str(), /*overwrite=*/1);
}

Devices open_gpus(int count) {
  hide_other_gpus(count);
  load_cuda();
  const int gpus = count_gpus();
  if (gpus == 1 && count == 2) return {at::Device(at::kCUDA, 0), at::kCPU};
  if (gpus < count) {
    throw cannot_use_gpus(fmt::format("{} are needed, and torch sees {}", count, gpus),
                          "see 'lockstep doctor', or run with --device sim");
  }
  Devices devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>(i));
  return devices;
}

Devices open_virtual(const Rank& rank, const NodeDevices& options) {
  VirtualDeviceOptions opened{.count = options.count, .capacity = options.capacity};
  if (options.capacity) opened.ledger = rank.folder() / fmt::format("devices-{}.bin", options.node);
  open_virtual_devices(opened);
  Devices devices;
  for (int i = 0; i < options.count; ++i) devices.push_back(virtual_device(i));
  return devices;
}

}  // namespace

at::Device open_own_device(const Rank& rank) {
  if (rank.cell().device == DeviceKind::cpu) return at::kCPU;
  if (rank.cell().device == DeviceKind::sim) return open_virtual(rank, {.count = 1}).front();
  load_cuda();
  const int gpus = count_gpus();
  if (gpus == 0)
    throw cannot_use_gpus("torch sees none", "see 'lockstep doctor', or run with --device sim");
  const at::Device own(at::kCUDA, static_cast<c10::DeviceIndex>(rank.local_rank() % gpus));
  set_current_device(own);
  return own;
}

Devices open_devices(Rank& rank, const NodeDevices& options) {
  const auto count = static_cast<std::size_t>(options.count);
  if (rank.is_reference()) return Devices(count, rank.device());
  rank.device_ = at::kCPU;
  if (rank.cell().device == DeviceKind::sim) return open_virtual(rank, options);
  if (rank.cell().device == DeviceKind::cuda) return open_gpus(options.count);
  return Devices(count, at::kCPU);
}

void take_turns(Rank& rank, const std::function<void()>& turn) {
  for (int next = 0; next < rank.world_size(); ++next) {
    if (next == rank.rank()) turn();
    rank.group().barrier();
  }
}

void observe_placement(Rank& rank, const Module& model) {
  if (rank.cell().device == DeviceKind::cpu || rank.cell().role == Role::reference) return;
  std::map<std::string, std::int64_t> bytes;
  for (const auto& tensors : {model.parameters(), model.buffers()}) {
    for (const at::Tensor& tensor : tensors) {
      bytes[tensor.device().str()] += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  for (const auto& [device, count] : bytes) {
    rank.observer().observe(Phase::pre_forward, Kind::memory,
                            {"weights on " + device, at::scalar_tensor(count, at::kLong)});
  }
}

void observe_allocation(Rank& rank) {
  const at::Device device = rank.device();
  if (device.is_cpu()) return;
  rank.observer().observe(
      Phase::post_step, Kind::memory,
      {"allocated on " + device.str(), at::scalar_tensor(allocated_bytes(device), at::kLong)});
}

void set_current_device(at::Device device) {
  c10::impl::getDeviceGuardImpl(device.type())->setDevice(device);
}

at::Device current_device(at::Device like) {
  return c10::impl::getDeviceGuardImpl(like.type())->getDevice();
}

}  // namespace lockstep
