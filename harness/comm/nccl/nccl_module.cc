// The exported function of the module.

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "harness/comm/backend.h"
#include "reports/base/error.h"

namespace lockstep {

namespace {

bool may_share() {
  const char* const word = std::getenv("LOCKSTEP_SHARE_GPU");
  return word && std::string(word) == "1";
}

/// NCCL refuses two ranks on one GPU if both report the same host, so ranks that share one report
/// different hosts. Call it before the first NCCL call. Not tried on a GPU yet.
void pretend_own_host(int rank) {
  ::setenv("NCCL_HOSTID", fmt::format("lockstep-{}", rank).c_str(), /*overwrite=*/0);
}

/// The GPU of a rank: one each, in the order of the ranks of its machine.
c10::DeviceIndex gpu_of(const RankPlacement& placement) {
  const int gpus = c10::cuda::device_count();
  if (gpus == 0) {
    throw Error(Error::Kind::usage,
                "--backend nccl needs a GPU for each rank, and no CUDA device is visible; see "
                "'lockstep doctor', or use --backend gloo.");
  }
  if (gpus < placement.local_world_size) {
    if (!may_share()) {
      throw Error(
          Error::Kind::usage,
          fmt::format(
              "--backend nccl needs a GPU for each rank, but for {} ranks {} visible; use fewer "
              "ranks or --backend gloo, or set LOCKSTEP_SHARE_GPU=1 to let ranks share a GPU.",
              placement.local_world_size, gpus == 1 ? "1 is" : fmt::format("{} are", gpus)));
    }
    pretend_own_host(placement.rank);
  }
  return static_cast<c10::DeviceIndex>(placement.local_rank % gpus);
}

c10::intrusive_ptr<c10d::Backend> make(const c10::intrusive_ptr<c10d::Store>& store,
                                       const RankPlacement& placement,
                                       std::chrono::milliseconds timeout) {
  const c10::DeviceIndex gpu = gpu_of(placement);
  c10::cuda::set_device(gpu);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, placement.rank,
                                                             placement.world_size, options);
  backend->setBoundDeviceId(at::Device(at::kCUDA, gpu));
  return backend;
}

}  // namespace

}  // namespace lockstep

lockstep::BackendFactory lockstep_backend_factory() { return lockstep::make; }
