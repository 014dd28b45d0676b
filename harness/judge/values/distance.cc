#include "harness/judge/values/distance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "harness/judge/values/compare_values.h"
#include "harness/record/dtype.h"
#include "harness/record/shard_runs.h"
#include "harness/record/sketch.h"

namespace lockstep {

namespace {

/// Sums over the components of two tensors.
struct Products {
  double left = 0;   ///< <left, left>
  double right = 0;  ///< <right, right>
  double both = 0;   ///< <left, right>
  double apart = 0;  ///< <right - left, right - left>
};

Distance distance_of(const Products& products, double residual) {
  Distance distance;
  distance.absolute = std::sqrt(products.apart);
  const double larger = std::sqrt(std::max(products.left, products.right));
  distance.relative = larger > 0 ? distance.absolute / larger : 0;
  if (products.left > 0) distance.ratio = products.both / products.left;
  const double norms = std::sqrt(products.left) * std::sqrt(products.right);
  if (norms > 0) distance.cosine = std::clamp(products.both / norms, -1.0, 1.0);
  distance.residual = products.right > 0 ? residual / std::sqrt(products.right) : 0;
  return distance;
}

template <class Numbers>
Distance distance_of(const Numbers& left, const Numbers& right) {
  Products products;
  for (std::size_t i = 0; i < left.size(); ++i) {
    products.left += left[i] * left[i];
    products.right += right[i] * right[i];
    products.both += left[i] * right[i];
    products.apart += (right[i] - left[i]) * (right[i] - left[i]);
  }
  const double ratio = products.left > 0 ? products.both / products.left : 0;
  double residual = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double rest = right[i] - ratio * left[i];
    residual += rest * rest;
  }
  return distance_of(products, std::sqrt(residual));
}

std::vector<double> finite_components_of(const SnapshotTensor& tensor) {
  std::vector<double> numbers = components_of(tensor);
  for (double& one : numbers) one = std::isfinite(one) ? one : 0;
  return numbers;
}

}  // namespace

std::optional<Distance> distance_between(const StepView& step, const Holder& left,
                                         const Holder& right) {
  const bool has_same_form = left.value->dtype == right.value->dtype &&
                             left.value->local_shape == right.value->local_shape;
  if (!has_same_form) return std::nullopt;
  const SnapshotTensor* const a = step.kept(left.rank, *left.value);
  const SnapshotTensor* const b = step.kept(right.rank, *right.value);
  if (a && b) return distance_of(finite_components_of(*a), finite_components_of(*b));
  const Sketch* const one = step.sketch(left.rank, *left.value);
  const Sketch* const other = step.sketch(right.rank, *right.value);
  if (!one || !other) return std::nullopt;
  Distance distance = distance_of(one->lanes, other->lanes);
  distance.absolute /= std::sqrt(ComponentSums::kSketches);  // the squares are those of all
  const double larger = std::max(left.value->statistics.norm, right.value->statistics.norm);
  distance.relative = larger > 0 ? distance.absolute / larger : 0;
  const auto dtype = parse<DType>(left.value->dtype);
  const auto numbers = element_count(left.value->local_shape) *
                       static_cast<std::int64_t>(dtype ? components(*dtype) : 1);
  const bool is_exact = numbers <= static_cast<std::int64_t>(Sketch::kLanes) &&
                        left.value->local_shape == left.value->global_shape;
  distance.error = is_exact ? 0 : kSketchError;
  return distance;
}

}  // namespace lockstep
