#include "harness/judge/values/tensor_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/words.h"
#include "harness/judge/values/shards.h"

namespace lockstep {

namespace {

double distance_of(const ValueDifference& values) {
  if (std::isnan(values.worst)) return std::numeric_limits<double>::quiet_NaN();
  // Different bits of equal numbers, such as -0.0: not the same bits, but no numeric difference.
  if (values.worst == 0) return std::numeric_limits<double>::denorm_min();
  return values.norm;
}

/// Their difference other than the value; a shard must lie in the reference's tensor.
std::string structural_difference_of(int rank, const Observation& actual,
                                     const Observation& expected) {
  Observation whole = actual;
  if (is_shard(actual) && lies_in(actual, expected)) whole.global_shape = expected.global_shape;
  return structural_difference(whole, fmt::format("rank {}", rank), expected, kReference);
}

/// The reference's value for the tensor of `actual`; empty if there is no snapshot.
std::optional<SnapshotTensor> expected_value(const ExpectedValues& values,
                                             const Observation& actual,
                                             const Observation& expected) {
  const SnapshotTensor* whole = values.value(expected);
  const bool is_whole = whole && whole->shape == expected.global_shape;
  if (!is_whole) return std::nullopt;
  return is_shard(actual) ? cut(*whole, actual) : *whole;
}

/// If rounding alone moves the reference as far as a fault would, the claim is undecided.
void allow_for_instability(const ExpectedStep& expected, TensorComparison& comparison) {
  if (comparison.verdict == Verdict::holds && comparison.tensor().is_resolved) return;
  std::string reason = expected.stability.instability(expected.claim, expected.values);
  if (reason.empty() && comparison.verdict == Verdict::violated) {
    reason = instability_of(expected.values, *comparison.expected, comparison.distance);
  }
  if (reason.empty()) return;
  comparison.verdict = Verdict::undecided;
  comparison.reason = std::move(reason);
}

/// Indices of a shard's components in the whole tensor; empty for a whole tensor.
std::vector<std::size_t> places_of(const Observation& actual) {
  std::vector<std::size_t> places;
  if (!is_shard(actual)) return places;
  const std::size_t per_element = components(*parse<DType>(actual.dtype));
  for (const Run& run : runs_of(actual)) {
    const auto begin = static_cast<std::size_t>(run.begin) * per_element;
    const auto length = static_cast<std::size_t>(run.length) * per_element;
    for (std::size_t i = 0; i < length; ++i) places.push_back(begin + i);
  }
  return places;
}

/// Requires: the two values differ.
void compare_values(const ExpectedStep& step, const SnapshotTensor& actual,
                    const SnapshotTensor& expected, TensorComparison& comparison) {
  if (!is_inexact(comparison.actual->dtype)) {
    comparison.distance = std::numeric_limits<double>::infinity();
    comparison.verdict = Verdict::violated;
    if (comparison.tensor().is_moved_exactly) {
      comparison.verdict = Verdict::undecided;
      comparison.reason = fmt::format(
          "the reference is not stable here: changing the last bit of the inputs changes whole "
          "numbers of {} in step {}",
          comparison.actual->name, comparison.actual->step);
    }
    return;
  }
  comparison.distance = distance_of(comparison.values);
  if (!comparison.tensor().directions.empty()) {
    comparison.along = along(comparison.tensor(), components_of(actual), components_of(expected),
                             places_of(*comparison.actual));
  }
  // The part of one shard along a direction is meaningless until the others are added.
  const bool is_part = is_shard(*comparison.actual);
  comparison.verdict = verdict_of(comparison.tensor(), comparison.distance,
                                  is_part ? std::vector<double>() : comparison.along);
  allow_for_instability(step, comparison);
}

}  // namespace

double TensorComparison::relative(double norm) const {
  return tensor().norm > 0 ? norm / tensor().norm : norm;
}

double TensorComparison::margin() const {
  double largest = distance / tensor().tolerance.norm;
  if (const auto fault = clearest_fault(tensor(), along)) {
    largest = std::max(largest, std::abs(along[*fault]) / tensor().directions[*fault].tolerance);
  }
  return largest;
}

TensorComparison compare_with_reference(const StepView& seen, int rank, const Observation& actual,
                                        const Observation& expected, const ExpectedStep& step) {
  TensorComparison comparison{rank, &actual, &expected, &step.values};
  comparison.structural = structural_difference_of(rank, actual, expected);
  if (!comparison.structural.empty()) {
    comparison.verdict = Verdict::violated;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    return comparison;
  }
  if (expected.statistics.non_finite > 0) {
    comparison.verdict = Verdict::undecided;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    comparison.reason =
        fmt::format("{} in step {} is not finite in the reference", actual.name, actual.step);
    return comparison;
  }
  if (actual.digest == expected.digest) return comparison;
  const SnapshotTensor* left = seen.kept(rank, actual);
  const std::optional<SnapshotTensor> right = expected_value(step.values, actual, expected);
  if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) {
    comparison.verdict = Verdict::undecided;
    comparison.distance = std::numeric_limits<double>::quiet_NaN();
    comparison.reason = fmt::format(
        "{} in step {} on rank {} differs from the reference by an unknown amount: a stored value "
        "is missing",
        actual.name, actual.step, rank);
    return comparison;
  }
  comparison.values = difference(*left, *right);
  if (comparison.values.differing == 0) return comparison;
  ElementDifference& first = *comparison.values.first;
  first.index = index_in_whole(first.index, actual, expected);
  compare_values(step, *left, *right, comparison);
  return comparison;
}

void add_up_shards(const ExpectedStep& step, std::vector<TensorComparison>& comparisons) {
  using Offsets = std::vector<std::int64_t>;
  std::map<TensorKey, std::vector<TensorComparison*>> by_tensor;
  for (TensorComparison& comparison : comparisons) {
    const bool is_off = comparison.distance > 0 && std::isfinite(comparison.distance);
    if (is_off && is_shard(*comparison.actual)) {
      by_tensor[key_of(*comparison.actual)].push_back(&comparison);
    }
  }
  for (const auto& [key, shards] : by_tensor) {
    std::map<Offsets, const TensorComparison*> worst;
    for (const TensorComparison* shard : shards) {
      const TensorComparison*& here = worst[shard->actual->offset];
      if (!here || shard->distance > here->distance) here = shard;
    }
    double squares = 0;
    std::vector<double> along(shards.front()->along.size());
    for (const auto& [offset, shard] : worst) {
      squares += shard->distance * shard->distance;
      std::transform(along.begin(), along.end(), shard->along.begin(), along.begin(),
                     std::plus<>());
    }
    TensorComparison& furthest = **std::max_element(
        shards.begin(), shards.end(), [](const TensorComparison* a, const TensorComparison* b) {
          return a->distance < b->distance;
        });
    furthest.distance = std::max(furthest.distance, std::sqrt(squares));
    furthest.along = std::move(along);
    furthest.verdict = verdict_of(furthest.tensor(), furthest.distance, furthest.along);
    allow_for_instability(step, furthest);
  }
}

}  // namespace lockstep
