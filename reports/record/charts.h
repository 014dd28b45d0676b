#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/record/claim.h"

namespace lockstep {

/// A quantity of ranks with the same values, by step.
struct RankSeries {
  std::vector<int> ranks;      ///< ascending
  std::vector<double> values;  ///< one per step; NaN: not observed, or not finite

  bool operator==(const RankSeries&) const = default;
};

/// The course of an execution over its steps, thinned.
struct StepSeries {
  std::vector<std::int64_t> steps;  ///< ascending; all vectors below have one entry per step
  std::int64_t observed = 0;        ///< steps before thinning
  std::int64_t merged_changes = 0;  ///< changes of agreement that were thinned, too: they were many
  std::vector<std::int64_t> differing;  ///< tensors in which ranks differ
  /// L2 norm of the gradients before the optimizer's step. Ranks with equal series are one entry.
  std::vector<RankSeries> norms;
  std::int64_t ranks_left_out = 0;  ///< of `norms`; not of the two below
  std::vector<double> smallest_norms;
  std::vector<double> largest_norms;
  /// Largest difference between ranks in any parameter after the step; NaN: unknown.
  std::vector<double> drift;
  /// If the values were not stored: the L2 norm of the largest difference from rank 0, estimated;
  /// NaN: unknown.
  std::vector<double> estimated_drift;

  bool operator==(const StepSeries&) const = default;
};

/// Steps in a row in which ranks differ in a tensor, or some of them lack it.
struct DifferingRun {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool is_missing = false;
  bool is_partial = false;  ///< in some of these steps ranks agree: there were too many runs

  bool operator==(const DifferingRun&) const = default;
};

/// A tensor in which ranks ever differ.
struct TensorCourse {
  Kind kind = Kind::gradient;
  Phase phase = Phase::pre_step;
  std::string name;
  std::vector<std::vector<int>> groups;  ///< ranks with equal bits, in the first such step
  std::vector<DifferingRun> runs;        ///< ascending
  std::int64_t steps = 0;                ///< in which it differs or is missing on some rank
  std::int64_t last = 0;                 ///< such step

  bool operator==(const TensorCourse&) const = default;
};

/// Which tensors ranks agree on, step by step.
struct AgreementMap {
  std::int64_t tensors = 0;             ///< of two ranks or more, or missing on some; 0: no map
  std::vector<TensorCourse> differing;  ///< in the order of their first difference
  std::int64_t left_out = 0;            ///< differing tensors beyond the limit
  std::int64_t first_step = 0;          ///< in which ranks were compared; 0: none
  std::int64_t last_step = 0;

  bool operator==(const AgreementMap&) const = default;
};

/// A call of a collective.
struct LaneCall {
  std::int64_t number = 0;  ///< of the collective in its group, from 1
  std::int64_t step = 0;
  std::string text;  ///< "allreduce sum float32 [4, 4], gradient of w"
  std::string site;  ///< "file.cc:41"; empty: unknown
  bool is_open = false;

  bool operator==(const LaneCall&) const = default;
};

/// The calls of ranks that called the same.
struct Lane {
  std::vector<int> ranks;       ///< ascending
  std::vector<LaneCall> calls;  ///< ascending

  bool operator==(const Lane&) const = default;
};

/// Collectives of one group, rank by rank: those around the first mismatch, else the last ones.
struct CollectiveLanes {
  std::string group;
  std::vector<Lane> lanes;
  std::int64_t ranks_left_out = 0;

  bool operator==(const CollectiveLanes&) const = default;
};

/// Series for charts. The judge fills them from the files for formats that show them (`Renderer`).
/// They are not in record.json: they repeat the files, and would multiply its size.
struct Charts {
  StepSeries series;
  AgreementMap agreement;
  CollectiveLanes lanes;

  bool operator==(const Charts&) const = default;
};

}  // namespace lockstep
