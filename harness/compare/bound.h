#pragma once

#include <optional>

#include "harness/compare/value.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Beyond so many times the bound by a precision, a difference is no rounding.
inline constexpr double kFault = 5;

/// Relative distances of two values: up to `within` they are rounding, beyond `beyond` a fault, and
/// undecided between both.
struct Limit {
  double within = 0;
  double beyond = 0;

  bool operator==(const Limit&) const = default;
};

/// By a precision: a fault is `kFault` times as large.
Limit limit_of(double within);

/// The one that allows more.
Limit wider(const Limit& a, const Limit& b);

/// The likeness of values that do not have the same bits.
Likeness likeness_within(double relative, const Limit& limit);

/// How far two values may be apart.
struct Bound {
  Limit whole;                    ///< in any direction
  std::optional<Limit> multiple;  ///< of what is a multiple, if that is less; absent: unknown
  bool decides_multiples = true;  ///< no other rounding comes in; false: they are undecided

  bool operator==(const Bound&) const = default;
};

/// What rounding in a step depends on, apart from the types of the tensors.
struct StepRounding {
  double weights_apart = 0;  ///< relative distance of all parameters before the step
  double roundoff = 0;  ///< of the coarsest type that either side computed in; 0: none is known
};

/// How far two tensors are apart by the rounding of two layouts. The terms are relative to a norm.
///   base        of layouts that add up in another order: min(512 u, sqrt(u) / 2), u: unit roundoff
///   multiple    the same along the tensor's own direction, where roundings hardly add up:
///               min(512 u, sqrt(u) / 8)
///   carried     kCarried times the distance of the parameters before the step
struct RoundingOfLayouts {
  double base = 0;
  double multiple = 0;
  double carried = 0;

  double sum() const { return base + carried; }
  double of_multiple() const { return multiple + carried; }
  Bound bound() const { return {limit_of(sum()), limit_of(of_multiple())}; }
};

/// A difference of the parameters comes back in a gradient at most so many times as large, in
/// trainings whose learning rate suits them.
inline constexpr double kCarried = 1000;

/// A difference by a factor of two is half of the larger norm; a bound must stay below it.
inline constexpr double kLargestBound = 0.1;

RoundingOfLayouts rounding_of_layouts(const Value& a, const Value& b, const StepRounding& step);

/// Whether two gradients of a tensor are 0 up to rounding: their root mean squares are at most
/// `bound` times that of their summands on both sides. `summands`: for which the other gradients of
/// the module stand, since all follow from the gradient at its output.
bool is_without_evidence(const Value& a, const Value& b, double bound, double summands);

/// Rounding tolerance of a tensor without further information, relative to its norm. A sum of W
/// terms in another order differs by at most W - 1 roundings of its largest partial sum. Twice that
/// covers partial sums larger than their total.
double rounding_tolerance(double unit_roundoff, int world_size);

/// Rounding tolerance of a mean of W terms with known norms, relative to the mean of the norms.
/// Rounding errors of two orders are independent, so they grow as the root of W. For similar terms
/// a typical difference is 0.5 roundings times that root. The tolerance is four times as much, as a
/// tensor of one element requires.
double summation_tolerance(double unit_roundoff, int world_size);

/// Other summation orders and other kernels round more often than one perturbed input does.
inline constexpr double kPerturbationFactor = 8;

}  // namespace lockstep
