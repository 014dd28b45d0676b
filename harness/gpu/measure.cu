#include "harness/gpu/team.h"

namespace lockstep::gpu {
namespace {

/// The threads of this thread block, each of which runs this code.
class DeviceThreads {
 public:
  template <class Work>
  __device__ void each(const Work& work) {
    work(threadIdx.x, state_);
    __syncthreads();
  }

  /// Makes the writes of this thread visible to other teams.
  __device__ void publish() const { __threadfence(); }

  /// Counts this team, and returns how many have been counted.
  __device__ std::uint32_t count(std::uint32_t& finished) const {
    const std::uint32_t counted = atomicAdd(&finished, 1) + 1;
    __threadfence();
    return counted;
  }

  /// Reads from memory what another team has written: it may be in no cache of this one.
  template <class T>
  __device__ T read(const T& written) const {
    static_assert(sizeof(T) % sizeof(double) == 0);
    T copy;
    for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(double)); ++i) {
      reinterpret_cast<double*>(&copy)[i] = __ldcg(reinterpret_cast<const double*>(&written) + i);
    }
    return copy;
  }

 private:
  ThreadState state_;
};

}  // namespace
}  // namespace lockstep::gpu

/// One thread block is one team.
extern "C" __global__ void __launch_bounds__(lockstep::gpu::kThreads, 4)
    lockstep_measure(lockstep::gpu::Launch launch) {
  __shared__ lockstep::gpu::TeamMemory memory;
  lockstep::gpu::DeviceThreads threads;
  lockstep::gpu::run_team(threads, memory, launch, blockIdx.x);
}
