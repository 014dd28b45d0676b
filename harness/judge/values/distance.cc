#include "harness/judge/values/distance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "harness/compare/value_difference.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"

namespace lockstep {

namespace {

std::vector<double> finite_components_of(const SnapshotTensor& tensor) {
  std::vector<double> numbers = components_of(tensor);
  for (double& one : numbers) one = std::isfinite(one) ? one : 0;
  return numbers;
}

double over(double norm, double larger) { return larger > 0 ? norm / larger : 0; }

}  // namespace

std::optional<Distance> distance_between(const StepView& step, const Holder& left,
                                         const Holder& right) {
  const bool has_same_form = left.value->dtype == right.value->dtype &&
                             left.value->local_shape == right.value->local_shape;
  if (!has_same_form) return std::nullopt;
  const SnapshotTensor* const a = step.kept(left.rank, *left.value);
  const SnapshotTensor* const b = step.kept(right.rank, *right.value);
  if (a && b) {
    const Apart apart = apart_of(finite_components_of(*a), finite_components_of(*b));
    return Distance{apart, over(apart.norm, std::max(apart.left, apart.right)), {}};
  }
  const Sketch* const one = step.sketch(left.rank, *left.value);
  const Sketch* const other = step.sketch(right.rank, *right.value);
  if (!one || !other) return std::nullopt;
  const Apart apart = apart_of(*one, *other);
  const auto dtype = parse<DType>(left.value->dtype);
  const auto numbers = element_count(left.value->local_shape) *
                       static_cast<std::int64_t>(dtype ? components(*dtype) : 1);
  const bool is_exact = numbers <= static_cast<std::int64_t>(Sketch::kLanes) &&
                        left.value->local_shape == left.value->global_shape;
  const double larger = std::max(left.value->statistics.norm, right.value->statistics.norm);
  return Distance{apart, over(apart.norm, larger), is_exact ? 0 : kSketchError};
}

}  // namespace lockstep
