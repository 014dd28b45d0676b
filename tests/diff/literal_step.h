#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/step_view.h"
#include "harness/record/measure.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"

namespace lockstep {

/// A step of ranks that observe float32 tensors given as numbers.
class LiteralStep {
 public:
  explicit LiteralStep(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// A part of a tensor that `rank` holds: rows from `first` on of `rows`, of the numbers' count in
  /// all columns.
  LiteralStep& part(int rank, const std::string& name, const std::vector<float>& numbers,
                    std::int64_t first, std::int64_t rows, Kind kind = Kind::gradient,
                    Phase phase = Phase::pre_step, std::int64_t columns = 2) {
    Observation row;
    row.phase = phase;
    row.kind = kind;
    row.name = name;
    row.dtype = "float32";
    row.local_shape = {static_cast<std::int64_t>(numbers.size()) / columns, columns};
    row.global_shape = {rows, columns};
    row.offset = {first, 0};
    auto& seen = ranks_[static_cast<std::size_t>(rank)];
    row.seq = static_cast<std::int64_t>(seen.observations.size());
    const auto bytes = std::as_bytes(std::span(numbers));
    measure(row, bytes);
    seen.sketches[row.seq] = sketch_of(row, bytes);
    seen.observations.push_back(std::move(row));
    return *this;
  }

  LiteralStep& whole(int rank, const std::string& name, const std::vector<float>& numbers,
                     Kind kind = Kind::gradient, Phase phase = Phase::pre_step) {
    return part(rank, name, numbers, 0, static_cast<std::int64_t>(numbers.size()) / 2, kind, phase);
  }

  StepView view() const { return StepView(1, ranks_); }

  std::vector<StepView::Rank>& ranks() { return ranks_; }

 private:
  std::vector<StepView::Rank> ranks_;
};

}  // namespace lockstep
