#include "harness/sim/virtual_devices.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include "harness/sim/device_runtime.h"
#include "harness/sim/host_aliases.h"
#include "harness/sim/ledger.h"
#include "harness/sim/memory.h"
#include "harness/sim/operators.h"
#include "reports/base/error.h"

namespace lockstep {

void open_virtual_devices(const VirtualDeviceOptions& options) {
  if (has_virtual_devices()) throw internal_error("virtual devices are open already");
  if (options.count < 1 || options.count > sim::kMostDevices) {
    throw internal_error(fmt::format("{} virtual devices", options.count));
  }
  sim::open_memory(options);
  sim::register_runtime(options.count);
  sim::register_operators();
  at::globalContext().setWarnOnAccumulateGradStreamMismatch(false);  // streams have no meaning here
}

bool has_virtual_devices() { return sim::device_count() > 0; }

at::Device virtual_device(int index) { return {sim::kSim, static_cast<c10::DeviceIndex>(index)}; }

VirtualMemory virtual_memory(int index) {
  return sim::memory_of(static_cast<c10::DeviceIndex>(index));
}

void reset_peak_virtual_memory() {
  if (has_virtual_devices()) sim::reset_peaks();
}

at::Tensor cpu_alias(const at::Tensor& tensor) { return sim::HostAliases().to_host(tensor); }

}  // namespace lockstep
