#include "harness/judge/values/restored_start.h"

#include <algorithm>
#include <cmath>

#include "harness/compare/bound.h"
#include "harness/record/dtype.h"

namespace lockstep {

namespace {

constexpr double kRoundings = 4;
constexpr double kSmallPart = 0.01;

/// Of the parameters that a rank held before its first step.
double norm_of_all(const StepView& step, int rank) {
  double squares = 0;
  for (const Observation& one : step.observations(rank)) {
    const bool is_start = one.kind == Kind::parameter && one.phase == Phase::pre_forward;
    if (is_start) squares += one.statistics.norm * one.statistics.norm;
  }
  return std::sqrt(squares);
}

}  // namespace

void RestoredStart::add(const StepView& step, const std::vector<Holder>& values) {
  ++(is_near(step, values) ? near_ : far_);
}

bool RestoredStart::is_near(const StepView& step, const std::vector<Holder>& values) {
  const Observation& first = *values.front().value;
  const double roundoff = roundoff_of(first.dtype);
  const double scale =
      std::max(first.statistics.norm, kSmallPart * norm_of_all(step, values.front().rank));
  const double bound = kRoundings * roundoff;
  if (scale <= 0 || bound <= 0) return false;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i].value->statistics.non_finite != first.statistics.non_finite) return false;
    const auto apart = distance_between(step, values.front(), values[i]);
    if (!apart) return false;
    const double relative = apart->norm / scale;
    if (relative > bound) return false;
    largest_apart_.add(relative, bound);
  }
  return true;
}

void RestoredStart::write(ClaimResult& result) const {
  largest_apart_.write(result, "rounding of a perturbation that was taken back");
}

}  // namespace lockstep
