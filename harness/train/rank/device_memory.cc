#include "harness/train/rank/device_memory.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <utility>

#include "harness/sim/virtual_devices.h"

namespace lockstep {

namespace {

/// Bytes of a device: live now, and at their most since `restart_peak`.
struct Bytes {
  std::int64_t live = 0;
  std::int64_t peak = 0;
};

Bytes bytes_on(at::Device device) {
  if (!device.is_cuda()) {
    const VirtualMemory memory = virtual_memory(device.index());
    return {memory.live, memory.peak};
  }
  using c10::CachingAllocator::StatType;
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  const auto& requested = stats.requested_bytes[static_cast<std::size_t>(StatType::AGGREGATE)];
  return {requested.current, requested.peak};
}

void restart_peak(at::Device device) {
  if (!device.is_cuda()) return reset_peak_virtual_memory();
  c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
}

/// The first product of matrices of a thread takes memory for cuBLAS, and keeps it: that of this
/// thread and of autograd's.
void take_workspaces(at::Device device) {
  static bool has_taken = false;
  if (!device.is_cuda() || std::exchange(has_taken, true)) return;
  const at::Tensor one = at::ones({1, 1}, device).requires_grad_();
  at::mm(one, one).sum().backward();
}

}  // namespace

std::int64_t allocated_bytes(at::Device device) {
  return device.is_cpu() ? 0 : bytes_on(device).live;
}

DeviceMemory::DeviceMemory(at::Device device) : device_(device) {
  if (device.is_cpu()) {
    on_cpu_.emplace();
    return;
  }
  take_workspaces(device);
  restart_peak(device);
  live_before_ = bytes_on(device).live;
}

std::int64_t DeviceMemory::peak() const {
  return on_cpu_ ? on_cpu_->peak() : bytes_on(device_).peak - live_before_;
}

}  // namespace lockstep
