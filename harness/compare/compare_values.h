#pragma once

#include <optional>
#include <vector>

#include "harness/compare/bound.h"
#include "harness/compare/ratio_meaning.h"
#include "harness/compare/value.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// A multiple is one if the rest is so many times smaller. Elements that change by themselves leave
/// as large a rest, unless nine tenths of the tensor are theirs.
inline constexpr double kOverRest = 3;

/// Part of the norm of all tensors together, below which a tensor is noise itself, such as a
/// gradient that is exactly 0.
inline constexpr double kSmallPart = 0.01;

/// Sizes of the jobs that the cause of a ratio may be, in addition to those of the tensor.
struct JobSizes {
  int ranks = 1;                       ///< of the larger side
  std::vector<KnownSize> groups = {};  ///< of ranks, that the training named
  std::vector<KnownSize> others = {};  ///< such as micro-batches
};

/// Whether `b` is `a`, up to a bound. `all`: the larger norm of all tensors of the quantity
/// together. `sizes`: for the cause in words.
TensorDifference compare_values(const Value& a, const Value& b, const Bound& bound, double all,
                                const JobSizes& sizes);

/// The L2 distance of two tensors, by digests or sketches; absent: unknown.
std::optional<double> distance_of(const Value& a, const Value& b);

}  // namespace lockstep
