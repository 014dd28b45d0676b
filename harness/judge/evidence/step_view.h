#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/record/observation.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// What all ranks observed in one step.
class StepView {
 public:
  /// What one rank observed.
  struct Rank {
    std::vector<Observation> observations;          ///< in execution order
    std::map<std::string, SnapshotTensor> tensors;  ///< kept whole, by `snapshot_key`
  };

  StepView(std::int64_t number, std::vector<Rank> ranks);

  std::int64_t number() const { return number_; }
  int processes() const { return static_cast<int>(ranks_.size()); }

  /// Empty where the rank observed nothing in this step. Valid as long as this.
  std::span<const Observation> observations(int rank) const;

  /// The value kept for an observation of `rank`; null when none was kept. Valid as long as this.
  const SnapshotTensor* kept(int rank, const Observation& observation) const;

  /// Bytes of memory that this takes, roughly.
  std::size_t size() const { return size_; }

 private:
  std::int64_t number_ = 0;
  std::vector<Rank> ranks_;
  std::size_t size_ = 0;
};

}  // namespace lockstep
