#pragma once

#include <c10/core/Device.h>

namespace lockstep::sim {

inline constexpr c10::DeviceType kSim = c10::DeviceType::PrivateUse1;

/// Registers name, device guard, hooks and allocator of `count` devices. Call once per process.
void register_runtime(int count);

/// 0 before `register_runtime`.
int device_count();

/// Of this thread.
c10::Device current_device();

/// Throws c10::Error, in CUDA's words, if there is no such device.
void check_device(c10::DeviceIndex index);

}  // namespace lockstep::sim
