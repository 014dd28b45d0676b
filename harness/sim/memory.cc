#include "harness/sim/memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "harness/sim/device_runtime.h"
#include "harness/sim/ledger.h"

namespace lockstep::sim {
namespace {

struct Memory {
  explicit Memory(const VirtualDeviceOptions& options)
      : capacity(options.capacity), ledger(options.ledger) {}

  std::optional<std::int64_t> capacity;
  Ledger ledger;
  std::array<std::atomic<std::int64_t>, kMostDevices> peak{};
};

// Never destroyed, because tensors of static objects are freed last.
Memory* memory = nullptr;

/// In torch's format.
std::string rounded(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const auto in = [&](int shift) {
    return static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << shift);
  };
  if (bytes < std::int64_t{1} << 20) return fmt::format("{:.2f} KiB", in(10));
  if (bytes < std::int64_t{1} << 30) return fmt::format("{:.2f} MiB", in(20));
  return fmt::format("{:.2f} GiB", in(30));
}

[[noreturn]] void refuse(c10::DeviceIndex device, std::int64_t wanted) {
  const VirtualMemory now = memory_of(device);
  const std::int64_t capacity = now.capacity.value_or(kNoLimit);
  const std::int64_t free = std::max<std::int64_t>(capacity - now.used, 0);
  const std::string text = fmt::format(
      "sim:{} out of memory. Tried to allocate {}. sim:{} has a total capacity of {} of which {} "
      "is free. This process has {} memory in use, other processes have {}. In bytes: {} wanted, "
      "{} free, {} capacity, {} in use by this process, {} by others.",
      device, rounded(wanted), device, rounded(capacity), rounded(free), rounded(now.live),
      rounded(now.used - now.live), wanted, free, capacity, now.live, now.used - now.live);
  TORCH_CHECK_WITH(OutOfMemoryError, false, text);
}

/// Charges a device with bytes while it exists.
class Charge {
 public:
  Charge(c10::DeviceIndex device, std::size_t bytes)
      : device_(device), bytes_(static_cast<std::int64_t>(bytes)) {
    const auto live = memory->ledger.add(device_, bytes_, memory->capacity.value_or(kNoLimit));
    if (!live) refuse(device_, bytes_);
    std::atomic<std::int64_t>& peak = memory->peak[static_cast<std::size_t>(device_)];
    std::int64_t before = peak;
    while (before < *live && !peak.compare_exchange_weak(before, *live)) {
    }
  }
  ~Charge() { memory->ledger.remove(device_, bytes_); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  c10::DeviceIndex device_;
  std::int64_t bytes_;
};

/// Data owned by a device's DataPtr.
struct Allocated {
  Charge charge;
  c10::DataPtr host;
};
struct Adopted {
  Charge charge;
  c10::Storage host;
};

template <class Owned>
c10::DataPtr data_of(void* data, std::unique_ptr<Owned> owned, c10::Device device) {
  return {data, owned.release(), [](void* context) { delete static_cast<Owned*>(context); },
          device};
}

c10::DataPtr adopted_data(const c10::Storage& host, c10::Device device) {
  void* data = host.unsafeGetStorageImpl()->mutable_data_ptr().mutable_get();
  return data_of(data, std::unique_ptr<Adopted>(new Adopted{{device.index(), host.nbytes()}, host}),
                 device);
}

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device = current_device();
    check_device(device.index());
    if (bytes == 0) return {nullptr, device};
    std::unique_ptr<Allocated> owned(new Allocated{{device.index(), bytes}, {}});
    owned->host = c10::GetCPUAllocator()->allocate(bytes);
    void* data = owned->host.get();
    return data_of(data, std::move(owned), device);
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

c10::Storage storage_of(std::size_t bytes, c10::DataPtr data, c10::Allocator* allocator) {
  return {c10::Storage::use_byte_size_t(), bytes, std::move(data), allocator, /*resizable=*/true};
}

}  // namespace

void open_memory(const VirtualDeviceOptions& options) {
  memory = std::make_unique<Memory>(options).release();
}

VirtualMemory memory_of(c10::DeviceIndex device) {
  check_device(device);
  return {memory->capacity, memory->ledger.own(device),
          memory->peak[static_cast<std::size_t>(device)], memory->ledger.used(device)};
}

void reset_peaks() {
  for (int device = 0; device < kMostDevices; ++device) {
    memory->peak[static_cast<std::size_t>(device)] = memory->ledger.own(device);
  }
}

c10::Allocator* allocator() {
  static auto* const instance = new DeviceAllocator;
  return instance;
}

c10::Storage adopt(const c10::Storage& host, c10::Device device) {
  return storage_of(host.nbytes(), adopted_data(host, device), allocator());
}

void replace_memory(c10::StorageImpl& storage, const c10::Storage& host) {
  storage.set_data_ptr_noswap(adopted_data(host, storage.device()));
  storage.set_nbytes(host.nbytes());
}

void resize_storage(c10::StorageImpl& storage, std::size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const c10::DeviceGuard guard(storage.device());
  c10::DataPtr data = allocator()->allocate(bytes);
  const std::size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) std::memcpy(data.mutable_get(), storage.data(), kept);
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(bytes);
}

c10::Storage host_storage(const c10::Storage& storage) {
  void* data = storage.unsafeGetStorageImpl()->mutable_data_ptr().mutable_get();
  return storage_of(
      storage.nbytes(),
      data_of(data, std::make_unique<c10::Storage>(storage), c10::Device(c10::DeviceType::CPU)),
      c10::GetCPUAllocator());
}

}  // namespace lockstep::sim
