#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstddef>

#include "harness/sim/virtual_devices.h"

namespace lockstep::sim {

/// Call before the other functions. Throws Error (usage) for a ledger that cannot be used.
void open_memory(const VirtualDeviceOptions& options);

VirtualMemory memory_of(c10::DeviceIndex device);
void reset_peaks();

/// Allocates on the current device: memory of the CPU allocator, charged to the device. Throws
/// c10::OutOfMemoryError if too little is left.
c10::Allocator* allocator();

/// Storage on `device` that keeps `host` alive and is charged for its bytes. Throws
/// c10::OutOfMemoryError.
c10::Storage adopt(const c10::Storage& host, c10::Device device);

/// Replaces the memory of the device's `storage` by that of `host`, like `adopt`.
void replace_memory(c10::StorageImpl& storage, const c10::Storage& host);

/// Like at::native::resize_bytes_cpu. Throws c10::OutOfMemoryError and then leaves `storage`
/// unchanged.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);

/// CPU storage with the memory of `storage`, which it keeps alive. Not charged.
c10::Storage host_storage(const c10::Storage& storage);

}  // namespace lockstep::sim
