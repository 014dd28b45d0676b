#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/record/journal.h"
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

  /// What a rank observed, in execution order. A null is a row that is left out.
  struct Tensors {
    std::int64_t first_seq = 0;  ///< of the first one
    std::vector<SeenTensor> rows;
  };

  /// Without values, for a step in which all ranks of each replica group hold the same bits and all
  /// numbers are finite.
  StepView(std::int64_t number, std::vector<Tensors> tensors);

  std::int64_t number() const { return number_; }
  int processes() const { return static_cast<int>(has_values_ ? ranks_.size() : tensors_.size()); }

  bool has_values() const { return has_values_; }

  /// A row of a rank.
  struct Row {
    const ObservedTensor* tensor;
    std::int64_t micro_batch;
    std::int64_t seq;
    const Observation* value;  ///< null if the step has no values
  };

  /// Calls `see` with each row of a rank, in execution order. What rows point to is valid as long
  /// as this.
  template <class See>
  void for_each_row(int rank, const See& see) const;

  /// Whether a row of a rank satisfies `is_it`; by default whether there is one.
  bool has_row(int rank, const std::function<bool(const ObservedTensor&)>& is_it = {}) const;

  /// The observations of one rank, which has the number 0 there.
  StepView only(int rank) const;

  /// Empty if the rank observed nothing in this step. Valid as long as this. Requires: values.
  std::span<const Observation> observations(int rank) const;

  /// The snapshot of an observation of `rank`; null if there is none. Valid as long as this.
  const SnapshotTensor* kept(int rank, const Observation& observation) const;

  /// The sketch of an observation of `rank`; null if there is none. Valid as long as this.
  const Sketch* sketch(int rank, const Observation& observation) const;

  /// Approximate memory in bytes.
  std::size_t size() const { return size_; }

 private:
  std::int64_t number_ = 0;
  bool has_values_ = true;
  std::vector<Rank> ranks_;
  std::vector<Tensors> tensors_;  ///< by rank
  std::size_t size_ = 0;
};

template <class See>
void StepView::for_each_row(int rank, const See& see) const {
  const auto place = static_cast<std::size_t>(rank);
  if (has_values_) {
    for (const Observation& one : ranks_.at(place).observations) {
      see(Row{&one, one.micro_batch, one.seq, &one});
    }
    return;
  }
  std::int64_t seq = tensors_.at(place).first_seq;
  for (const SeenTensor& one : tensors_.at(place).rows) {
    if (one.tensor) see(Row{&one.tensor->tensor, one.micro_batch, seq, nullptr});
    ++seq;
  }
}

}  // namespace lockstep
