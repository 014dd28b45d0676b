#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstddef>

#include "harness/sim/virtual_devices.h"

namespace lockstep::sim {

/// Before any of the other functions. Throws Error (usage) for a ledger that cannot be used.
void open_memory(const VirtualDeviceOptions& options);

VirtualMemory memory_of(c10::DeviceIndex device);
void reset_peaks();

/// Allocates on the current device: memory of the CPU's allocator, charged to the device. Throws
/// c10::OutOfMemoryError where it has too little left.
c10::Allocator* allocator();

/// Storage on `device` that keeps `host` alive and is charged for its bytes. Throws
/// c10::OutOfMemoryError.
c10::Storage adopt(const c10::Storage& host, c10::Device device);

/// `storage`, of a device, lets go of its memory and keeps that of `host` instead, as `adopt`.
void replace_memory(c10::StorageImpl& storage, const c10::Storage& host);

/// As at::native::resize_bytes_cpu. Throws c10::OutOfMemoryError and leaves `storage` as it is.
void resize_storage(c10::StorageImpl& storage, std::size_t bytes);

/// Storage of the CPU with the memory of `storage`, which it keeps alive. Charged to nobody.
c10::Storage host_storage(const c10::Storage& storage);

}  // namespace lockstep::sim
