#include "harness/judge/values/largest_margin.h"

namespace lockstep {

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
