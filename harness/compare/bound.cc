#include "harness/compare/bound.h"

#include <algorithm>
#include <cmath>

namespace lockstep {

Limit limit_of(double within) { return {within, kFault * within}; }

Limit wider(const Limit& a, const Limit& b) { return a.within < b.within ? b : a; }

Likeness likeness_within(double relative, const Limit& limit) {
  if (relative <= limit.within) return Likeness::rounding;
  return relative > limit.beyond ? Likeness::different : Likeness::undecided;
}

RoundingOfLayouts rounding_of_layouts(const Value& a, const Value& b, const StepRounding& step) {
  const double u = std::max({roundoff_of(a.dtype), roundoff_of(b.dtype), step.roundoff});
  return {std::min(512 * u, std::sqrt(u) / 2), std::min(512 * u, std::sqrt(u) / 8),
          kCarried * step.weights_apart};
}

bool is_without_evidence(const Value& a, const Value& b, double bound, double summands) {
  const bool is_whole = !a.is_undefined && !b.is_undefined && a.problem.empty() &&
                        b.problem.empty() && a.non_finite + b.non_finite == 0;
  return is_whole && std::max(root_mean_square(a), root_mean_square(b)) <= bound * summands;
}

double rounding_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * world_size;
}

double summation_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * std::sqrt(world_size);
}

}  // namespace lockstep
