#include "harness/judge/values/rounding_drift.h"

#include <algorithm>
#include <cmath>

#include "harness/judge/values/tolerance.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"

namespace lockstep {

namespace {

/// Beyond this, what is no rounding would be hidden; formats of few bits round by more.
constexpr double kMost = 1e-3;
/// A difference without direction changes the ratio by far less than itself. The estimate of the
/// ratio from sketches has a standard deviation of 0.13 differences.
constexpr double kDirected = 0.75;
/// With fewer elements, a difference has a direction by chance.
constexpr std::int64_t kFewElements = 32;

}  // namespace

double RoundingDrift::bound_at(std::int64_t step, double unit_roundoff) const {
  const double most = std::max(kMost, 2 * unit_roundoff);
  const double once = kPerturbationFactor * rounding_tolerance(unit_roundoff, world_size_);
  return std::min(once * static_cast<double>(step - first_ + 1), most);
}

void RoundingDrift::add(const StepView& step, const std::vector<Holder>& values) {
  if (exceeds_) return;
  if (first_ == 0) first_ = step.number();
  if (step.number() == first_) ++differing_;
  const Observation& left = *values.front().value;
  const auto dtype = parse<DType>(left.dtype);
  const double roundoff = dtype ? unit_roundoff(component_type(*dtype)) : 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Observation& right = *values[i].value;
    const auto apart = distance_between(step, values.front(), values[i]);
    const bool is_finite = left.statistics.non_finite == 0 && right.statistics.non_finite == 0;
    if (!apart || !is_finite || roundoff == 0) {
      exceeds_ = true;
      return;
    }
    pairs_.push_back({values[i].rank, apart->relative,
                      std::max(left.statistics.norm, right.statistics.norm), roundoff,
                      apart->ratio && std::abs(*apart->ratio - 1) > kDirected * apart->relative,
                      element_count(left.local_shape) >= kFewElements});
  }
}

void RoundingDrift::end_step(std::int64_t step, std::int64_t compared, double norm) {
  if (step == first_) compared_ = compared;
  struct Directions {
    int large = 0;
    int directed = 0;
  };
  std::map<int, Directions> by_rank;
  for (const Pair& pair : pairs_) {
    const double bound = bound_at(step, pair.roundoff);
    if (pair.norm <= bound * norm) continue;  // such as a gradient that is exactly 0
    if (!(pair.relative <= bound)) exceeds_ = true;
    if (pair.is_large) {
      ++by_rank[pair.rank].large;
      by_rank[pair.rank].directed += pair.has_direction ? 1 : 0;
    }
    if (pair.relative / bound > margin_) {
      margin_ = pair.relative / bound;
      tolerance_ = bound;
    }
  }
  pairs_.clear();
  for (const auto& [rank, directions] : by_rank) {
    if (2 * directions.directed > directions.large) exceeds_ = true;
  }
}

bool RoundingDrift::is_all() const {
  const bool is_widespread = differing_ > 1 && 2 * differing_ >= compared_;
  return first_ > 0 && !exceeds_ && is_widespread;
}

void RoundingDrift::write(ClaimResult& result) const {
  result.verdict = Verdict::holds;
  result.margin = margin_;
  result.tolerance = tolerance_;
  result.tolerance_from = "rounding of replicas that each rank computes";
}

}  // namespace lockstep
