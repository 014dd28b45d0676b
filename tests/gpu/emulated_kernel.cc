#include "tests/gpu/emulated_kernel.h"

#include <array>
#include <cstring>
#include <memory>

#include "harness/gpu/team.h"

namespace lockstep::gpu {
namespace {

class EmulatedThreads {
 public:
  template <class Work>
  void each(const Work& work) {
    for (std::uint32_t thread = 0; thread < kThreads; ++thread) work(thread, states_[thread]);
  }

  void publish() const {}

  std::uint32_t count(std::uint32_t& finished) const { return ++finished; }

  template <class T>
  const T& read(const T& written) const {
    return written;
  }

 private:
  std::array<ThreadState, kThreads> states_;
};

}  // namespace

void run_emulated(const Launch& launch, std::span<const std::uint32_t> order) {
  const auto memory = std::make_unique<TeamMemory>();
  for (const std::uint32_t team : order) {
    constexpr int kOfEarlierTeams = 0xa5;
    std::memset(static_cast<void*>(memory.get()), kOfEarlierTeams, sizeof *memory);
    EmulatedThreads threads;
    run_team(threads, *memory, launch, team);
  }
}

}  // namespace lockstep::gpu
