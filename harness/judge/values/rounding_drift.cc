#include "harness/judge/values/rounding_drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/compare/bound.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "reports/base/name_pattern.h"

namespace lockstep {

namespace {

/// Beyond this, what is no rounding would be hidden; formats of few bits round by more.
constexpr double kMost = 1e-3;
/// A difference without direction changes the ratio by far less than itself. The estimate of the
/// ratio from sketches has a standard deviation of 0.13 differences.
constexpr double kDirected = 0.75;
/// With fewer elements, a difference has a direction by chance.
constexpr std::int64_t kFewElements = 32;
/// Unit roundoffs of its module's largest tensor, below which a tensor may be 0 but for rounding.
constexpr double kFloor = 2;

/// The largest norm of a tensor in each module, where it has several, and of all tensors together.
class ModuleNorms {
 public:
  explicit ModuleNorms(const std::vector<const HeldTensor*>& tensors) {
    for (const HeldTensor* const tensor : tensors) {
      const Observation& any = *tensor->holders.front().second;
      Module& module = modules_[module_of(any.name)];
      ++module.tensors;
      module.largest = std::max(module.largest, any.statistics.norm);
      squares_ += any.statistics.norm * any.statistics.norm;
    }
  }

  double of(const std::string& tensor) const {
    const auto module = modules_.find(module_of(tensor));
    return module != modules_.end() && module->second.tensors > 1 ? module->second.largest
                                                                  : std::sqrt(squares_);
  }

 private:
  struct Module {
    int tensors = 0;
    double largest = 0;
  };
  std::map<std::string, Module> modules_;
  double squares_ = 0;
};

}  // namespace

double RoundingDrift::bound_at(std::int64_t step, double unit_roundoff) const {
  const double most = std::max(kMost, 2 * unit_roundoff);
  const double once = kPerturbationFactor * rounding_tolerance(unit_roundoff, world_size_);
  return std::min(once * static_cast<double>(step - first_ + 1), most);
}

void RoundingDrift::add(const StepView& step, const std::vector<Holder>& values) {
  if (first_ == 0) first_ = step.number();
  const Observation& left = *values.front().value;
  const double roundoff = roundoff_of(left.dtype);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Observation& right = *values[i].value;
    const auto apart = distance_between(step, values.front(), values[i]);
    const bool is_finite = left.statistics.non_finite == 0 && right.statistics.non_finite == 0;
    if (!apart || !is_finite || roundoff == 0) {
      beyond_.insert(left.name);
      return;
    }
    const bool is_unseen = apart->error.value_or(0) > 0 && apart->norm == 0;
    if (is_unseen && open_.empty()) {
      open_ = "the bits of " + left.name + " differ, and the sketches do not see where";
    }
    pairs_.push_back({left.name, values[i].rank, apart->norm,
                      std::max(left.statistics.norm, right.statistics.norm), roundoff,
                      apart->ratio && std::abs(*apart->ratio - 1) > kDirected * apart->relative,
                      element_count(left.local_shape) >= kFewElements});
  }
}

void RoundingDrift::end_step(std::int64_t step, const std::vector<const HeldTensor*>& compared) {
  if (step == first_) compared_ = static_cast<std::int64_t>(compared.size());
  struct Directions {
    int large = 0;
    int directed = 0;
  };
  const ModuleNorms norms(compared);
  std::map<int, Directions> by_rank;
  std::set<std::string> names;
  for (const Pair& pair : pairs_) {
    double& largest = largest_[pair.name];
    largest = std::max(largest, pair.norm);
    judge(pair, bound_at(step, pair.roundoff), largest,
          kFloor * pair.roundoff * norms.of(pair.name));
    names.insert(pair.name);
    if (!pair.is_large || beyond_.contains(pair.name)) continue;
    ++by_rank[pair.rank].large;
    by_rank[pair.rank].directed += pair.has_direction ? 1 : 0;
  }
  pairs_.clear();
  if (step == first_) {
    rounded_ = std::count_if(names.begin(), names.end(),
                             [&](const std::string& name) { return !beyond_.contains(name); });
  }
  for (const auto& [rank, directions] : by_rank) {
    if (2 * directions.directed > directions.large) is_directed_ = true;
  }
}

/// `scale`: the largest norm of the tensor so far, because a value that cancels keeps its
/// roundings.
void RoundingDrift::judge(const Pair& pair, double bound, double scale, double floor) {
  const double relative = scale > 0 ? pair.absolute / scale : 0;
  if (relative > bound) {
    if (scale > floor) {
      beyond_.insert(pair.name);
    } else if (open_.empty()) {
      open_ = fmt::format(
          "{} differs by {:.2g} of its norm, which is below the rounding of its module, so it may "
          "be 0 but for rounding",
          pair.name, relative);
    }
    return;
  }
  largest_apart_.add(relative, bound);
}

bool RoundingDrift::is_established(bool is_known) const {
  const bool is_widespread = rounded_ > 1 && 2 * rounded_ >= compared_;
  return first_ > 0 && !is_directed_ && (is_widespread || is_known);
}

void RoundingDrift::write(ClaimResult& result) const {
  largest_apart_.write(result, "rounding of replicas that each rank computes");
}

}  // namespace lockstep
