#include "harness/train/loop/sampler.h"

#include <ATen/core/Generator.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <numeric>

#include "harness/train/nn/module.h"
#include "reports/base/error.h"

namespace lockstep {

DistributedSampler::DistributedSampler(std::int64_t size, int world_size, int rank,
                                       std::uint64_t seed, bool shuffle, bool drop_last)
    : size_(size),
      world_size_(world_size),
      rank_(rank),
      seed_(seed),
      shuffle_(shuffle),
      drop_last_(drop_last) {
  if (size < 0 || rank < 0 || rank >= world_size) {
    throw internal_error(
        fmt::format("no sampler of {} samples for rank {} of {}", size, rank, world_size));
  }
}

std::int64_t DistributedSampler::samples() const {
  const std::int64_t whole = size_ / world_size_;
  return drop_last_ || size_ % world_size_ == 0 ? whole : whole + 1;
}

std::vector<std::int64_t> DistributedSampler::order() const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size_));
  if (!shuffle_) {
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  const at::Generator generator = cpu_generator(seed_ + static_cast<std::uint64_t>(epoch_));
  const at::Tensor permutation = at::randperm(size_, generator);
  const auto* const drawn = permutation.const_data_ptr<std::int64_t>();
  order.assign(drawn, drawn + size_);
  return order;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  const std::vector<std::int64_t> all = order();
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < samples(); ++i) {
    own.push_back(all[static_cast<std::size_t>((rank_ + i * world_size_) % size_)]);
  }
  return own;
}

}  // namespace lockstep
