#include "harness/judge/values/tolerance.h"

#include <cmath>

namespace lockstep {

double rounding_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * world_size;
}

double summation_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * std::sqrt(world_size);
}

void LargestMargin::add(double relative, double tolerance) {
  if (relative / tolerance <= margin_) return;
  margin_ = relative / tolerance;
  tolerance_ = tolerance;
}

void LargestMargin::write(ClaimResult& result, const std::string& from) const {
  result.verdict = Verdict::holds;
  result.margin = margin_;
  result.tolerance = tolerance_;
  result.tolerance_from = from;
}

}  // namespace lockstep
