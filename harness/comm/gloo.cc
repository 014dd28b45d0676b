#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "harness/comm/backend.h"

namespace lockstep {

namespace {

/// The host name may resolve to an address without a route, which ranks on one machine do not need.
std::shared_ptr<gloo::transport::Device> device_of(const RankPlacement& placement) {
  return placement.local_world_size == placement.world_size
             ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
             : c10d::ProcessGroupGloo::createDefaultDevice();
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            const RankPlacement& placement,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(device_of(placement));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, placement.rank, placement.world_size,
                                                     options);
}

}  // namespace lockstep
