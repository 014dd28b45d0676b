#pragma once

#include <cstdint>
#include <vector>

#include "harness/diff/whole_tensors.h"
#include "harness/judge/values/compare_values.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// What rounding in a step depends on, apart from the types of the tensors.
struct StepRounding {
  double weights_apart = 0;  ///< relative distance of all parameters before the step
  double roundoff = 0;  ///< of the coarsest type that either side computed in; 0: none is known
};

/// How far two tensors are apart by rounding. The terms are relative to a norm.
///   base        of layouts that add up in another order: min(512 u, sqrt(u) / 2), u: unit roundoff
///   multiple    the same along the tensor's own direction, where roundings hardly add up:
///               min(512 u, sqrt(u) / 8)
///   carried     kCarried times the distance of the parameters before the step
struct RoundingBound {
  double base = 0;
  double multiple = 0;
  double carried = 0;

  double sum() const { return base + carried; }
  double of_multiple() const { return multiple + carried; }
};

/// A difference of the parameters comes back in a gradient at most so many times as large, in
/// trainings whose learning rate suits them.
inline constexpr double kCarried = 1000;

/// Beyond so many times the bound, a difference is no rounding.
inline constexpr double kFault = 5;

/// A difference by a factor of two is half of the larger norm; a bound must stay below it.
inline constexpr double kLargestBound = 0.1;

/// A multiple is one if the rest is so many times smaller. Elements that change by themselves leave
/// as large a rest, unless nine tenths of the tensor are theirs.
inline constexpr double kOverRest = 3;

/// Part of the norm of all tensors together, below which a tensor is noise itself, such as a
/// gradient that is exactly 0.
inline constexpr double kSmallPart = 0.01;

/// The unit roundoff of its dtype; 0 for integers.
double roundoff_of(const WholeTensor& tensor);

RoundingBound bound_of(const WholeTensor& a, const WholeTensor& b, const StepRounding& step);

/// Whether two gradients of a tensor are 0 up to rounding: their root mean squares are at most
/// `bound` times that of their summands on both sides. `summands`: for which the other gradients of
/// the module stand, since all follow from the gradient at its output.
bool is_without_evidence(const WholeTensor& a, const WholeTensor& b, double bound, double summands);

/// Root mean square of the elements; 0 if there are none.
double root_mean_square(const WholeTensor& tensor);

/// Sizes of the jobs that the cause of a ratio may be, in addition to those of the tensor.
struct JobSizes {
  int ranks = 1;                       ///< of the larger side
  std::vector<KnownSize> groups = {};  ///< of ranks, that the training named
  std::vector<KnownSize> others = {};  ///< such as micro-batches
};

/// Compares a tensor of B with that of A. `all`: the larger norm of all tensors of the quantity
/// together. `sizes`: for the cause in words.
TensorDifference compare_tensors(const WholeTensor& a, const WholeTensor& b, double tolerance,
                                 double all, const JobSizes& sizes);

/// Judges what is a multiple by its own bound, if that is smaller: rounding hardly ever makes one.
/// `one`: the comparison by the bound of any direction. `is_known`: whether no other rounding comes
/// in; else it is undecided.
void judge_multiple(const WholeTensor& a, const WholeTensor& b, double bound, bool is_known,
                    TensorDifference& one);

/// The L2 distance of two tensors, by digests or sketches; absent: unknown.
std::optional<double> distance_of(const WholeTensor& a, const WholeTensor& b);

/// `after` - `before`, by sketches. Without both it has a problem.
WholeTensor update_of(const WholeTensor& before, const WholeTensor& after);

}  // namespace lockstep
