#include "harness/sim/device_runtime.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>

#include "harness/sim/memory.h"
#include "harness/sim/pinned_memory.h"

namespace lockstep::sim {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

std::atomic<int> count_of_devices{0};
thread_local DeviceIndex current_index = 0;

void set_current(DeviceIndex index) {
  check_device(index);
  current_index = index;
}

DeviceIndex exchange_current(DeviceIndex index) {
  const DeviceIndex before = current_index;
  set_current(index);
  return before;
}

/// Every device has one stream, on which all work runs synchronously. So events and synchronisation
/// do nothing.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kSim; }
  Device exchangeDevice(Device device) const override {
    const Device before = current_device();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return current_device(); }
  void setDevice(Device device) const override {
    if (device.has_index()) set_current(device.index());
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current_index = device.index();
  }
  Stream getStream(Device device) const override { return stream_of(device); }
  Stream getDefaultStream(Device device) const override { return stream_of(device); }
  Stream getStreamFromGlobalPool(Device device, bool /*is_high_priority*/) const override {
    return stream_of(device);
  }
  Stream getNewStream(Device device, int /*priority*/) const override { return stream_of(device); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(device_count());
  }
  void record(void** /*event*/, const Stream& /*stream*/, const DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  bool queryStream(const Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const Stream& /*stream*/) const override {}
  void synchronizeEvent(void* /*event*/) const override {}
  void synchronizeDevice(const DeviceIndex /*device*/) const override {}

 private:
  static Stream stream_of(Device device) {
    return Stream(Stream::DEFAULT, device.has_index() ? device : current_device());
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex /*device*/) const override { return true; }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(device_count()); }
  void setCurrentDevice(DeviceIndex device) const override { set_current(device); }
  DeviceIndex getCurrentDevice() const override { return current_index; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return exchange_current(device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return device < 0 ? current_index : exchange_current(device);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex /*device*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(DeviceIndex /*device*/) const override {
    return at::detail::createCPUGenerator();
  }
  Device getDeviceFromPtr(void* /*data*/) const override { return current_device(); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

}  // namespace

void register_runtime(int count) {
  // Never destroyed, because the engine's threads use them until the process ends.
  static const auto* const guard = new Guard;
  static auto* const hooks = new Hooks;
  c10::register_privateuse1_backend("sim");
  const c10::impl::DeviceGuardImplRegistrar registered(kSim, guard);
  at::RegisterPrivateUse1HooksInterface(hooks);
  c10::SetAllocator(kSim, allocator());
  count_of_devices = count;
}

int device_count() { return count_of_devices; }

Device current_device() { return {kSim, current_index}; }

void check_device(DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < device_count(),
              "sim error: invalid device ordinal: sim:", static_cast<int>(index),
              " was asked for, and there ", device_count() == 1 ? "is " : "are ", device_count(),
              device_count() == 1 ? " virtual device" : " virtual devices");
}

}  // namespace lockstep::sim
