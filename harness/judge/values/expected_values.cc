#include "harness/judge/values/expected_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "harness/compare/bound.h"
#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/evidence/observations.h"
#include "harness/judge/evidence/settle.h"
#include "harness/judge/evidence/words.h"

namespace lockstep {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// The parameters that a step has moved.
constexpr Claim kMoved{Predicate::equal_reference, Kind::parameter, Phase::post_step};

DType component_of(const Observation& observation) {
  return component_type(*parse<DType>(observation.dtype));
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::minus<>());
  return a;
}

double largest(const std::vector<double>& numbers) {
  double found = 0;
  for (const double number : numbers) found = std::max(found, std::abs(number));
  return found;
}

/// One rounding of the largest contribution to a direction, as a fraction of the direction.
double largest_share(const std::vector<double>& value, const FaultDirection& direction) {
  double found = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    found = std::max(found, std::abs(value[i] * direction.numbers[i]));
  }
  return found / direction.squared_norm;
}

bool is_alike(const SnapshotTensor* a, const SnapshotTensor* b) {
  return a && b && a->dtype == b->dtype && a->shape == b->shape;
}

}  // namespace

bool is_inexact(const std::string& name) {
  const auto dtype = parse<DType>(name);
  return dtype && unit_roundoff(component_type(*dtype)) > 0;
}

TensorKey key_of(const Observation& observation) {
  return {observation.micro_batch, observation.name};
}

ExpectedValues::ExpectedValues(const ReferenceRun& run, const Claim& claim, const StepView& step)
    : run_(run), step_(step), has_moved_(run.has_moved(claim)) {
  for (const Observation& observation : step.observations(0)) {
    const bool is_own = is_about_one_rank(observation);
    if (is_own && observation.kind == Kind::gradient && observation.phase == Phase::post_backward) {
      own_gradients_[observation.name][static_cast<int>(observation.micro_batch)] = &observation;
    } else if (concerns(claim, observation) && !is_own) {
      tensors_[key_of(observation)] = &observation;
    } else if (claim.kind == Kind::update && concerns(kMoved, observation) && !is_own) {
      moved_[observation.name] = &observation;
    }
  }
  for (int rank = 1; rank < step.processes(); ++rank) note_copy(rank, claim);
}

void ExpectedValues::note_copy(int rank, const Claim& claim) {
  for (const Observation& copy : step_.observations(rank)) {
    if (!concerns(claim, copy) || is_about_one_rank(copy)) continue;
    const auto plain = tensors_.find(key_of(copy));
    if (plain != tensors_.end()) copies_[plain->first].emplace_back(rank, &copy);
  }
}

const SnapshotTensor* ExpectedValues::value(const Observation& expected) const {
  return step_.kept(0, expected);
}

const Observation* ExpectedValues::find(const Observation& actual) const {
  const auto found = tensors_.find(key_of(actual));
  return found == tensors_.end() ? nullptr : found->second;
}

const ExpectedTensor& ExpectedValues::of(const Observation& expected) const {
  const auto [tensor, is_new] = measured_.try_emplace(&expected);
  if (is_new) tensor->second = measured(expected);
  return tensor->second;
}

ExpectedTensor ExpectedValues::measured(const Observation& expected) const {
  ExpectedTensor tensor;
  tensor.norm = tensor.signal = expected.statistics.norm;
  if (!is_inexact(expected.dtype)) {
    tensor.tolerance = {0, "none: whole numbers are exact"};
    tensor.is_moved_exactly = is_moved(expected);
    return tensor;
  }
  const SnapshotTensor* const value = step_.kept(0, expected);
  const Numbers numbers = value ? components_of(*value) : Numbers();
  const Numbers magnitudes = magnitudes_of(expected, numbers);
  const double scale = scale_of_own_gradients(expected);
  const double unit = unit_roundoff(component_of(expected));
  const double least = least_tolerance(expected, magnitudes, tensor.norm, scale,
                                       summation_tolerance(unit, run_.world_size()));
  measure_norms(expected, value, least, tensor);
  tensor.is_resolved = kPerturbationFactor * tensor.moved <= kSmallestFault * tensor.norm;
  if (!value || !has_moved_) return tensor;
  add_directions(expected, *value, numbers, scale, tensor);
  // Along a direction, the roundings of many elements hardly add up.
  const double least_along =
      least_tolerance(expected, magnitudes, tensor.norm, scale, summation_tolerance(unit, 1));
  set_tolerances(expected, *value, numbers, magnitudes, least_along, tensor);
  return tensor;
}

void ExpectedValues::measure_norms(const Observation& expected, const SnapshotTensor* value,
                                   double least, ExpectedTensor& tensor) const {
  for (const auto& [rank, copy] : copies_of(expected)) {
    if (!is_alike(copy, value)) continue;
    const ValueDifference moved = difference(*copy, *value);
    tensor.moved = std::max(tensor.moved, std::isnan(moved.worst) ? kInfinity : moved.norm);
  }
  const double noise = kPerturbationFactor * tensor.moved;
  tensor.tolerance.norm = least + noise;
  if (!has_moved_) {
    tensor.tolerance.from = "roundings of a sum over the ranks; no input was perturbed";
  } else if (noise > least) {
    tensor.tolerance.from = fmt::format("{} perturbed references", step_.processes() - 1);
  } else {
    tensor.tolerance.from = "roundings of a sum over the ranks";
  }
}

std::map<int, const SnapshotTensor*> ExpectedValues::copies_of(const Observation& expected) const {
  std::map<int, const SnapshotTensor*> copies;
  const auto found = copies_.find(key_of(expected));
  if (found == copies_.end()) return copies;
  for (const auto& [rank, observation] : found->second) {
    copies[rank] = step_.kept(rank, *observation);
  }
  return copies;
}

/// Whether a perturbed copy holds other bits.
bool ExpectedValues::is_moved(const Observation& expected) const {
  const auto found = copies_.find(key_of(expected));
  return found != copies_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const auto& copy) { return copy.second->digest != expected.digest; });
}

/// Whether a parameter is not trained. Without a gradient it stays constant, in the reference and
/// in every copy. A parameter with a gradient may also stay constant if rounding cancels each step,
/// but it may move with another rank's roundings.
bool ExpectedValues::is_frozen(const Observation& expected) const {
  if (expected.kind != Kind::parameter) return false;
  const Observation* const before = run_.initial(expected.name);
  return before && before->digest == expected.digest && !is_moved(expected) &&
         !run_.is_trained(expected.name);
}

/// Mean norm of the ranks' contributions to a gradient; 0 if not recorded.
double ExpectedValues::summands_norm(const Observation& expected) const {
  const auto own = own_gradients_.find(expected.name);
  if (expected.kind != Kind::gradient || own == own_gradients_.end()) return 0;
  double sum = 0;
  for (const auto& [rank, observation] : own->second) sum += observation->statistics.norm;
  return sum / run_.world_size();
}

/// The norm of the gradient relative to that of the mean of the ranks' own gradients. Clipping or
/// an unscaled loss changes it after those are recorded. It is 1 if the ratio is at least a half,
/// or if the ranks' gradients cancel so far that mostly roundings remain.
double ExpectedValues::scale_of_own_gradients(const Observation& expected) const {
  const double summands = summands_norm(expected);
  Numbers sum;
  for (int rank = 0; rank < run_.world_size() && summands > 0; ++rank) {
    const SnapshotTensor* const own = own_gradient(expected, rank);
    if (!own) continue;  // counts as zeros
    const Numbers numbers = components_of(*own);
    if (sum.empty()) sum.resize(numbers.size());
    if (sum.size() != numbers.size()) return 1;
    std::transform(sum.begin(), sum.end(), numbers.begin(), sum.begin(), std::plus<>());
  }
  const double mean = std::sqrt(dot(sum, sum)) / run_.world_size();
  const double roundings = 2 * unit_roundoff(component_of(expected)) * summands;
  const double scale = mean > kClearFactor * roundings ? expected.statistics.norm / mean : 1;
  return scale < 0.5 ? scale : 1;
}

/// `summation`: of a gradient, as a fraction of the ranks' contributions.
double ExpectedValues::least_tolerance(const Observation& expected, const Numbers& magnitudes,
                                       double norm, double scale, double summation) const {
  const DType component = component_of(expected);
  const double unit = unit_roundoff(component);
  const double elements = std::accumulate(expected.local_shape.begin(), expected.local_shape.end(),
                                          1.0, std::multiplies<>());
  const double subnormal = run_.world_size() * std::sqrt(elements) * smallest_subnormal(component);
  // If no copy moved anything, the propagation of earlier differences is unknown.
  if (!has_moved_) {
    const auto steps = static_cast<double>(expected.step);
    return rounding_tolerance(unit, run_.world_size()) * norm * steps + subnormal;
  }
  if (is_frozen(expected)) return subnormal;
  if (expected.kind == Kind::parameter) {
    return kRoundingsOfAParameter * unit * largest(magnitudes) + subnormal;
  }
  if (expected.kind == Kind::update) {  // the difference of two parameters
    return 2 * kRoundingsOfAParameter * unit * largest(magnitudes) +
           rounding_tolerance(unit, run_.world_size()) * norm + subnormal;
  }
  const double summands = scale * summands_norm(expected);
  if (summands == 0) return rounding_tolerance(unit, run_.world_size()) * norm + subnormal;
  return summation * std::max(summands, norm) + subnormal;
}

/// The parameter before the first step; empty if there is no snapshot.
std::optional<std::vector<double>> ExpectedValues::initial_value(const Observation& expected,
                                                                 std::size_t elements) const {
  const SnapshotTensor* const kept = run_.initial_value(expected.name);
  if (!kept || kept->bytes.size() == 0) return std::nullopt;
  Numbers numbers = components_of(*kept);
  if (numbers.size() != elements) return std::nullopt;
  return numbers;
}

/// The part of a value that a training fault would remove. An untrained parameter differs by the
/// reference's whole movement, even if that is small compared with the parameter.
std::optional<std::vector<double>> ExpectedValues::signal_of(const Observation& expected,
                                                             const Numbers& value) const {
  if (expected.kind != Kind::parameter) return value;
  const auto before = initial_value(expected, value.size());
  if (!before) return std::nullopt;
  return minus(value, *before);
}

/// The parameter that an update moved, after it; null: it is not observed.
const SnapshotTensor* ExpectedValues::moved_parameter(const Observation& update) const {
  const auto found = moved_.find(update.name);
  return found == moved_.end() ? nullptr : step_.kept(0, *found->second);
}

/// The value; for a parameter, the size of the numbers it was rounded from. Training may have
/// cancelled most of its first value, but the roundings of that remain. For an update, the
/// parameter's.
std::vector<double> ExpectedValues::magnitudes_of(const Observation& expected,
                                                  Numbers value) const {
  if (expected.kind == Kind::update) {
    const SnapshotTensor* const parameter = moved_parameter(expected);
    return parameter ? components_of(*parameter) : value;
  }
  if (expected.kind != Kind::parameter) return value;
  const auto before = initial_value(expected, value.size());
  for (std::size_t i = 0; before && i < value.size(); ++i) {
    value[i] = std::max(std::abs(value[i]), std::abs((*before)[i]));
  }
  return value;
}

const SnapshotTensor* ExpectedValues::own_gradient(const Observation& expected, int rank) const {
  const auto own = own_gradients_.find(expected.name);
  if (expected.kind != Kind::gradient || own == own_gradients_.end()) return nullptr;
  const auto found = own->second.find(rank);
  return found == own->second.end() ? nullptr : step_.kept(0, *found->second);
}

void ExpectedValues::add_directions(const Observation& expected, const SnapshotTensor& value,
                                    const Numbers& numbers, double scale,
                                    ExpectedTensor& tensor) const {
  const auto add = [&](std::string name, Numbers along, double smallest_fault) {
    const double squared = dot(along, along);
    if (squared > 0 && std::isfinite(squared)) {
      tensor.directions.push_back({std::move(name), std::move(along), squared, smallest_fault});
    }
  };
  auto signal = signal_of(expected, numbers);
  if (signal) {
    tensor.signal = std::sqrt(dot(*signal, *signal));
    add(kReference, std::move(*signal), kSmallestFault);
  }
  if (tensor.directions.empty()) return;
  for (int rank = 0; rank < run_.world_size() && run_.world_size() > 1; ++rank) {
    const SnapshotTensor* const own = own_gradient(expected, rank);
    if (!is_alike(own, &value)) continue;
    add(fmt::format("rank {}'s own gradient", rank), components_of(*own),
        scale / run_.world_size());
  }
}

/// For each direction: the rounding tolerance, and kDirectionFactor times the movement of the worst
/// copy along it.
void ExpectedValues::set_tolerances(const Observation& expected, const SnapshotTensor& value,
                                    const Numbers& numbers, const Numbers& magnitudes,
                                    double least_along, ExpectedTensor& tensor) const {
  if (tensor.directions.empty()) return;
  const double unit = unit_roundoff(component_of(expected));
  for (FaultDirection& direction : tensor.directions) {
    direction.tolerance = expected.kind == Kind::parameter
                              ? 2 * unit * largest_share(magnitudes, direction)
                              : least_along / std::sqrt(direction.squared_norm);
  }
  std::vector<double> worst(tensor.directions.size());
  for (const auto& [rank, copy] : copies_of(expected)) {
    if (!is_alike(copy, &value)) continue;
    const std::vector<double> moved = along(tensor, components_of(*copy), numbers);
    tensor.moves[rank] = moved.front() * tensor.directions.front().squared_norm;
    for (std::size_t i = 0; i < worst.size(); ++i) {
      const double noise = kDirectionFactor * std::abs(moved[i]);
      worst[i] = std::max(worst[i], std::isfinite(noise) ? noise : kInfinity);
    }
  }
  for (std::size_t i = 0; i < worst.size(); ++i) tensor.directions[i].tolerance += worst[i];
  tensor.is_resolved = worst.front() <= kSmallestFault;
}

const Stability& ExpectedValues::stability() const {
  if (!stability_) stability_ = measured_stability();
  return *stability_;
}

Stability ExpectedValues::measured_stability() const {
  Stability stability;
  double square = 0, most = 0;
  std::vector<double> moves(static_cast<std::size_t>(step_.processes()));
  for (const auto& [key, expected] : tensors_) {
    if (!is_inexact(expected->dtype) || !expected->not_comparable.empty()) continue;
    const ExpectedTensor& tensor = of(*expected);
    square += tensor.signal * tensor.signal;
    for (const auto& [rank, move] : tensor.moves) moves[static_cast<std::size_t>(rank)] += move;
    const double contribution = tensor.moved * tensor.signal;
    if (contribution <= most) continue;
    most = contribution;
    stability.worst = expected->name;
    stability.moved = tensor.moved / tensor.signal;
  }
  stability.signal = std::sqrt(square);
  for (const double move : moves) {
    const double noise = square > 0 ? kDirectionFactor * std::abs(move) / square : 0;
    stability.noise = std::max(stability.noise, std::isfinite(noise) ? noise : kInfinity);
  }
  return stability;
}

std::vector<double> along(const ExpectedTensor& expected, const std::vector<double>& actual,
                          const std::vector<double>& reference,
                          const std::vector<std::size_t>& places) {
  const std::vector<double> difference = minus(actual, reference);
  std::vector<double> parts;
  for (const FaultDirection& direction : expected.directions) {
    double product = 0;
    for (std::size_t i = 0; i < difference.size(); ++i) {
      product += difference[i] * direction.numbers[places.empty() ? i : places[i]];
    }
    parts.push_back(product / direction.squared_norm);
  }
  return parts;
}

std::optional<std::size_t> clearest_fault(const ExpectedTensor& expected,
                                          const std::vector<double>& along) {
  std::optional<std::size_t> clearest;
  double most = 0;
  for (std::size_t i = 0; i < along.size(); ++i) {
    const FaultDirection& direction = expected.directions[i];
    if (std::abs(along[i]) < direction.smallest_fault / 2) continue;
    const double tolerances = std::abs(along[i]) / direction.tolerance;
    if (tolerances <= std::max(most, 1.0)) continue;
    most = tolerances;
    clearest = i;
  }
  return clearest;
}

Verdict verdict_of(const ExpectedTensor& expected, double norm, const std::vector<double>& along) {
  if (!(norm <= kClearFactor * expected.tolerance.norm)) return Verdict::violated;  // NaN too
  const auto fault = clearest_fault(expected, along);
  if (fault && std::abs(along[*fault]) > kFaultFactor * expected.directions[*fault].tolerance) {
    return Verdict::violated;
  }
  return fault || norm > expected.tolerance.norm ? Verdict::undecided : Verdict::holds;
}

}  // namespace lockstep
