#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// torch.utils.data.distributed.DistributedSampler: selects and orders a rank's samples of a
/// dataset in an epoch, with the same indices. Every rank computes the whole order alone, without
/// communicating.
class DistributedSampler {
 public:
  /// `drop_last`: if `size` is no multiple of `world_size`, drops samples instead of repeating
  /// some. Throws Error (internal) for a rank outside the world.
  DistributedSampler(std::int64_t size, int world_size, int rank, std::uint64_t seed = 0,
                     bool shuffle = true, bool drop_last = false);

  /// Epoch 0 at first. Without this call every epoch has the order of the first.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  /// The rank's samples in the epoch, the same number on every rank: each `world_size`-th of the
  /// permutation drawn with seed + epoch, wrapped around at its end.
  std::vector<std::int64_t> indices() const;

 private:
  std::int64_t samples() const;  ///< of one rank
  std::vector<std::int64_t> order() const;

  std::int64_t size_;
  int world_size_;
  int rank_;
  std::uint64_t seed_;
  bool shuffle_;
  bool drop_last_;
  std::int64_t epoch_ = 0;
};

}  // namespace lockstep
