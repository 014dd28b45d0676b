#pragma once

namespace lockstep {

/// What rounding explains of a tensor of which nothing else is known, relative to its norm: a sum
/// of W terms in another order differs by at most W - 1 roundings of its largest partial sum; twice
/// that covers partial sums larger than their total.
double rounding_tolerance(double unit_roundoff, int world_size);

/// The same of a mean of W terms whose norms are known, relative to the mean of these: the
/// roundings of two orders are independent of each other, so that they add up as the root of W. For
/// terms that are alike, a typical difference is 0.5 roundings times that root; this is four times
/// as much, as a tensor of one element needs.
double summation_tolerance(double unit_roundoff, int world_size);

/// Other orders of summation and other kernels round more often than one perturbed input does.
inline constexpr double kPerturbationFactor = 8;

}  // namespace lockstep
