#pragma once

#include <string>

#include "reports/record/execution.h"

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

/// The largest difference so far, in units of its tolerance.
class LargestMargin {
 public:
  /// `relative`: a difference, `tolerance`: its limit, more than 0.
  void add(double relative, double tolerance);

  /// Makes a claim hold within tolerances. `from`: what they are those of.
  void write(ClaimResult& result, const std::string& from) const;

 private:
  double margin_ = 0;
  double tolerance_ = 0;
};

/// Other summation orders and other kernels round more often than one perturbed input does.
inline constexpr double kPerturbationFactor = 8;

}  // namespace lockstep
