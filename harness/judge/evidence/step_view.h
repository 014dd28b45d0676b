#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/record/observation.h"
#include "harness/record/sketch.h"
#include "harness/record/snapshots.h"

namespace lockstep {

/// The observations of all ranks in one step.
class StepView {
 public:
  /// The observations of one rank.
  struct Rank {
    std::vector<Observation> observations;          ///< in execution order
    std::map<std::string, SnapshotTensor> tensors;  ///< snapshots, by `snapshot_key`
    std::map<std::int64_t, Sketch> sketches;        ///< by `seq`
  };

  StepView(std::int64_t number, std::vector<Rank> ranks);

  std::int64_t number() const { return number_; }
  int processes() const { return static_cast<int>(ranks_.size()); }

  /// The observations of one rank, which has the number 0 there.
  StepView only(int rank) const;

  /// Empty if the rank observed nothing in this step. Valid as long as this.
  std::span<const Observation> observations(int rank) const;

  /// The snapshot of an observation of `rank`; null if there is none. Valid as long as this.
  const SnapshotTensor* kept(int rank, const Observation& observation) const;

  /// The sketch of an observation of `rank`; null if there is none. Valid as long as this.
  const Sketch* sketch(int rank, const Observation& observation) const;

  /// Approximate memory in bytes.
  std::size_t size() const { return size_; }

 private:
  std::int64_t number_ = 0;
  std::vector<Rank> ranks_;
  std::size_t size_ = 0;
};

}  // namespace lockstep
