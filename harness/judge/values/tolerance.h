#pragma once

namespace lockstep {

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
