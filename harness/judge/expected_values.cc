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

/// 0 for types without roundings.
double unit_of(const std::string& name) {
  const auto dtype = parse<DType>(name);
  return dtype ? unit_roundoff(component_type(*dtype)) : 0;
}

}  // namespace

bool is_inexact(const std::string& name) { return unit_of(name) > 0; }

TensorKey key_of(const Observation& observation) {
  return {observation.step, observation.micro_batch, observation.name};
}

ExpectedValues::ExpectedValues(const Evidence& reference, const Claim& claim, int world_size)
    : input_dtype_(reference.input_dtype()),
      perturbed_(reference.processes() - 1),
      world_size_(world_size) {
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
  std::map<std::int64_t, long double> squares;
  for (const Observation& observation : reference.observations(rank)) {
    if (!concerns(claim, observation) || is_about_one_rank(observation)) continue;
    const auto plain = tensors_.find(key_of(observation));
    if (plain == tensors_.end()) continue;
    const KeptTensor* left = reference.kept(rank, observation);
    const KeptTensor* right = reference.kept(0, *plain->second);
    if (!left || !right || left->dtype != right->dtype || left->shape != right->shape) continue;
    const long double norm = difference(*left, *right).norm;
    double& moved = moved_[plain->first];
    moved = std::max(moved, static_cast<double>(norm));
    has_moved_ = has_moved_ || norm > 0;
    if (is_inexact(observation.dtype)) squares[observation.step] += norm * norm;
  }
  for (const auto& [step, square] : squares) {
    double& moved = moved_together_[step];
    moved = std::max(moved, static_cast<double>(std::sqrt(square)));
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
  const double unit = unit_of(actual.dtype);
  const double all = norm(actual.step);
  const auto relative = [&](const auto& norms, const auto& key) {
    const auto found = norms.find(key);
    return found == norms.end() || all == 0 ? 0 : found->second / all;
  };
  // Where no copy moved anything, nothing says how far differences of earlier steps are carried.
  const double rounding =
      rounding_tolerance(unit, world_size_) * (has_moved_ ? 1 : static_cast<double>(actual.step));
  Tolerance tolerance{reference_tolerance(relative(moved_, key_of(actual)), rounding),
                      "roundings of a sum over the ranks"};
  if (!has_moved_) tolerance.from += ", for want of perturbed inputs";
  if (tolerance.value > rounding) {
    tolerance.from = fmt::format("{} perturbed references", perturbed_);
  }
  if (unit_of(input_dtype_) <= unit) return tolerance;
  // What was computed in the narrower type of the inputs has roundings of that, which in a tensor
  // of few elements can be the same in all copies. One that is missing is off by all of itself.
  const Observation* expected = find(actual);
  const double itself = expected && all > 0 ? expected->statistics.norm / all : 0;
  const double together =
      reference_tolerance(0, std::min(relative(moved_together_, actual.step), itself / 2));
  if (together > tolerance.value) {
    tolerance = {together, fmt::format("{} perturbed references, all tensors of {} inputs together",
                                       perturbed_, input_dtype_)};
  }
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
