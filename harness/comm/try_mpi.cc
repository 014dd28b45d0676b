#include "harness/comm/try_mpi.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "harness/comm/backend.h"

namespace lockstep {

void try_mpi(const RankPlacement& placement, std::chrono::milliseconds timeout) {
  // MPI's ranks know each other, so they need no store.
  const auto backend = make_mpi({}, placement, timeout);
  std::vector<at::Tensor> tensors{at::ones({1})};
  backend->allreduce(tensors, {})->wait();
  const auto sum = tensors.front().item<float>();
  if (sum != static_cast<float>(placement.world_size)) {
    throw std::runtime_error(
        fmt::format("the sum of a 1 from each of {} ranks is {}", placement.world_size, sum));
  }
  backend->shutdown();
}

}  // namespace lockstep
