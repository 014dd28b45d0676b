#include "harness/judge/expected_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/judge/compare_values.h"
#include "harness/judge/predicates.h"

namespace lockstep {

namespace {

bool is_about_one_rank(const Observation& observation) {
  return !observation.replica_group.empty();
}

}  // namespace

bool is_inexact(const std::string& name) {
  const auto dtype = parse<DType>(name);
  return dtype && unit_roundoff(component_type(*dtype)) > 0;
}

TensorKey key_of(const Observation& observation) {
  return {observation.step, observation.micro_batch, observation.name};
}

ExpectedValues::ExpectedValues(const Evidence& reference, const Claim& claim, int world_size)
    : perturbed_(reference.processes() - 1), world_size_(world_size) {
  for (const Observation& observation : reference.observations(0)) {
    if (!concerns(claim, observation) || is_about_one_rank(observation)) continue;
    tensors_[key_of(observation)] = &observation;
  }
  for (const auto& [key, observation] : tensors_) {
    const long double norm = is_inexact(observation->dtype) ? observation->statistics.norm : 0;
    squared_norms_[observation->step] += norm * norm;
  }
  for (int rank = 1; rank < reference.processes(); ++rank) note_moves(reference, rank, claim);
}

void ExpectedValues::note_moves(const Evidence& reference, int rank, const Claim& claim) {
  for (const Observation& observation : reference.observations(rank)) {
    if (!concerns(claim, observation) || is_about_one_rank(observation)) continue;
    const auto plain = tensors_.find(key_of(observation));
    if (plain == tensors_.end()) continue;
    const KeptTensor* left = reference.kept(rank, observation);
    const KeptTensor* right = reference.kept(0, *plain->second);
    if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) continue;
    double& moved = moved_[plain->first];
    moved = std::max(moved, difference(*left, *right).norm);
    has_moved_ = has_moved_ || moved > 0;
  }
}

const Observation* ExpectedValues::find(const Observation& actual) const {
  const auto found = tensors_.find(key_of(actual));
  return found == tensors_.end() ? nullptr : found->second;
}

double ExpectedValues::norm(std::int64_t step) const {
  return static_cast<double>(std::sqrt(squared_norms_.at(step)));
}

Tolerance ExpectedValues::tolerance(const Observation& actual) const {
  if (!is_inexact(actual.dtype)) return {0, "none: whole numbers are exact"};
  const double unit = unit_roundoff(component_type(*parse<DType>(actual.dtype)));
  const auto found = moved_.find(key_of(actual));
  const double all = norm(actual.step);
  const double moved = found == moved_.end() || all == 0 ? 0 : found->second / all;
  // Where no copy moved anything, nothing says how far differences of earlier steps are carried.
  const double least =
      rounding_tolerance(unit, world_size_) * (has_moved_ ? 1 : static_cast<double>(actual.step));
  Tolerance tolerance{reference_tolerance(moved, least), "roundings of a sum over the ranks"};
  if (!has_moved_) tolerance.from += ", for want of perturbed inputs";
  if (tolerance.value > least) tolerance.from = fmt::format("{} perturbed references", perturbed_);
  return tolerance;
}

double rounding_tolerance(double unit_roundoff, int world_size) {
  return 2 * unit_roundoff * world_size;
}

double reference_tolerance(double moved, double rounding_tolerance) {
  constexpr double kMost = 0.04;
  return std::min(std::max(kPerturbationFactor * moved, rounding_tolerance), kMost);
}

}  // namespace lockstep
