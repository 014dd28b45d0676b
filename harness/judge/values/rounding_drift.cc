#include "harness/judge/values/rounding_drift.h"

#include <algorithm>
#include <cmath>

#include "harness/judge/values/tolerance.h"
#include "harness/record/dtype.h"

namespace lockstep {

namespace {

/// Beyond this, formats of few bits would hide what is no rounding.
constexpr double kMostForOtherKernels = 1e-3;
/// A difference without direction changes the ratio by far less than itself. The estimate of the
/// ratio from sketches has a standard deviation of 0.18 differences.
constexpr double kDirected = 0.75;

}  // namespace

double RoundingDrift::bound_at(std::int64_t step, double unit_roundoff) const {
  const double once = rounding_tolerance(unit_roundoff, world_size_);
  const double first = std::min(kPerturbationFactor * once, std::max(once, kMostForOtherKernels));
  return first * static_cast<double>(step - first_ + 1);
}

void RoundingDrift::add(const StepView& step, const std::vector<Holder>& values) {
  if (first_ == 0) first_ = step.number();
  if (step.number() == first_) ++differing_;
  const auto dtype = parse<DType>(values.front().value->dtype);
  const double roundoff = dtype ? unit_roundoff(component_type(*dtype)) : 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const auto apart = distance_between(step, values.front(), values[i]);
    const bool is_finite = values.front().value->statistics.non_finite == 0 &&
                           values[i].value->statistics.non_finite == 0;
    const double bound = bound_at(step.number(), roundoff);
    if (!apart || !is_finite || roundoff == 0 || !(apart->relative <= bound)) {
      exceeds_ = true;
      return;
    }
    ++measured_;
    if (apart->ratio && std::abs(*apart->ratio - 1) > kDirected * apart->relative) ++directed_;
    if (apart->relative / bound > margin_) {
      margin_ = apart->relative / bound;
      tolerance_ = bound;
    }
  }
}

void RoundingDrift::end_step(std::int64_t step, std::int64_t compared) {
  if (step == first_) compared_ = compared;
}

bool RoundingDrift::is_all() const {
  const bool is_widespread = differing_ > 1 && 2 * differing_ >= compared_;
  return first_ > 0 && !exceeds_ && is_widespread && 2 * directed_ <= measured_;
}

void RoundingDrift::write(ClaimResult& result) const {
  result.verdict = Verdict::holds;
  result.margin = margin_;
  result.tolerance = tolerance_;
  result.tolerance_from = "rounding of replicas that each rank computes";
}

}  // namespace lockstep
