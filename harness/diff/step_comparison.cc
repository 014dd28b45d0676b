#include "harness/diff/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/compare/compare_values.h"
#include "harness/diff/hyperparameters.h"
#include "harness/diff/precision.h"
#include "harness/diff/preconditions.h"
#include "reports/base/name_pattern.h"

namespace lockstep {

namespace {

/// If ranks of B hold different values of a tensor, the one that is furthest from A's counts.
/// `least`: each that is at least so far is a difference. `compare`: one of B with that of A.
template <class Compare>
TensorDifference compare_pair(const TensorPair& pair, Likeness least, const Compare& compare) {
  TensorDifference found = compare(pair.b);
  const std::string problem = found.cause;
  for (const WholeTensor& value : pair.of_ranks) {
    if (value.elements != pair.a.elements || value.shape != pair.a.shape) continue;
    TensorDifference one = compare(value);
    if (one.likeness < least || one.relative <= found.relative) continue;
    found = std::move(one);
    found.likeness = Likeness::different;
    found.ranks = {value.rank};
    found.kind = FindingKind::weights_differ;
    found.multiple.reset();
    found.cause = problem;
  }
  found.quantity = pair.quantity;
  found.name = pair.name;
  return found;
}

/// Of a buffer or a state of an optimizer.
void call_lacking(const TensorPair& pair, TensorDifference& found) {
  const bool is_lacking = pair.a.is_undefined || pair.b.is_undefined;
  if (is_lacking && found.likeness != Likeness::equal) found.kind = FindingKind::states_differ;
}

/// Whether a third of the elements, each moved by as much as the others, explains a difference:
/// queries, keys and values are as many. The cosine is at least 2/3 then, but for its own estimate.
bool may_be_noise_in_part(const TensorDifference& one) {
  constexpr double kSmallestCosine = 0.5;
  return one.cosine && *one.cosine >= kSmallestCosine && !one.multiple && !one.kind;
}

}  // namespace

StepComparison::StepComparison(const SideFiles& a, const SideFiles& b, const DiffRequest& request)
    : a_(a),
      b_(b),
      request_(request),
      steps_a_(a, request.names, false),
      steps_b_(b, request.names, true),
      ranks_(std::max(a.job().world_size, b.job().world_size)),
      is_by_element_(has_optimizers_by_element(a.job()) && has_optimizers_by_element(b.job())),
      has_muon_(has_muon(a.job()) || has_muon(b.job())),
      has_scale_(has_scaled_gradients(a.job()) || has_scaled_gradients(b.job())) {
  const auto& of_b = b.job().state_buffers;
  std::set<std::string> of_a;
  for (const std::string& name : a.job().state_buffers) of_a.insert(request.names.new_name(name));
  for (const std::string& name : of_a) {
    const bool is_of_both = std::ranges::find(of_b, name) != of_b.end();
    if (is_of_both) buffers_.states.insert(name);
    if (!b.has_named(name)) buffers_.lone_states[0].insert(name);
  }
  for (const std::string& name : of_b) {
    if (!of_a.contains(name) && !a.has_named(name)) buffers_.lone_states[1].insert(name);
  }
}

std::vector<std::pair<std::int64_t, std::int64_t>> StepComparison::steps() const {
  std::vector<std::pair<std::int64_t, std::int64_t>> both;
  for (const std::int64_t step : a_.steps()) {
    const bool is_wanted = request_.until == 0 || step <= request_.until;
    if (is_wanted && b_.has(step + request_.offset))
      both.emplace_back(step, step + request_.offset);
  }
  return both;
}

StepDifference StepComparison::compare(std::int64_t step, std::int64_t other,
                                       const Noise& measured) {
  const SideStep a = steps_a_.at(step), b = steps_b_.at(other);
  begin(step, other, a, b);
  StepDifference found;
  found.step = step;
  found.other = other;
  found.weights_apart = parameters_apart(a.before, b.before, without_evidence_);
  const Noise noise =
      has_muon_ ? measured.of_weights_apart(found.weights_apart.value_or(0)) : measured;
  rounding_ = {found.weights_apart.value_or(0),
               std::max(computed_roundoff(a_.job(), step), computed_roundoff(b_.job(), other))};
  const std::vector<TensorPair> pairs = compared_pairs(a, b);
  found.undecidable = why_unknown(found.weights_apart, pairs, {a.before_unknown, b.before_unknown});
  const StepRounding of_modules = rounding_;
  const bool is_far = found.undecidable.empty() && may_be_all_rounding(pairs);
  if (is_far || noise.is_perturbed) rounding_.weights_apart = 0;
  if (noise.is_perturbed) {
    found.undecidable = noise.why_unstable();
  } else if (noise.moves()) {
    found.undecidable.clear();
  } else if (is_far) {
    found.undecidable = why_far(*found.weights_apart);
  }
  compare_all(pairs, a, b, noise, found);
  if (request_.are_same_values) hold_to_bits(pairs, found);
  // Tensors that are as near as those of equal parameters are decided all the same.
  const bool is_settled = is_far && !noise.is_perturbed;
  if (is_settled && found.count(Likeness::undecided) == 0) found.undecidable.clear();
  found.modules = modules_of(a, b, step, other, of_modules);
  // Repetitions say nothing about modules.
  found.modules.decides =
      found.modules.decides && found.undecidable.empty() && noise.distances.empty();
  return found;
}

std::vector<TensorPair> StepComparison::compared_pairs(const SideStep& a, const SideStep& b) {
  buffers_.are_statistics_of_same = ranks_saw_the_same(*a.view, *b.view).value_or(false);
  std::vector<TensorPair> pairs = pairs_of(a, b, buffers_);
  std::erase_if(pairs, [&](const TensorPair& pair) {
    return pair.quantity == Compared::statistic && told_statistics_.contains(pair.name);
  });
  if (!hold_copies(b)) {
    for (TensorPair& pair : pairs) pair.of_ranks.clear();
  }
  return pairs;
}

void StepComparison::begin(std::int64_t step, std::int64_t other, const SideStep& a,
                           const SideStep& b) {
  if (is_first_) note_first(a, b);
  is_from_start_ = is_first_ ? step <= 1 && other <= 1 : is_from_start_ && step == last_ + 1;
  has_gap_ = has_gap_ || (!is_first_ && step != last_ + 1);
  is_first_ = false;
  last_ = step;
  gradients_apart_ = 0;
  gradients_of_ranks_.clear();
}

ModuleDifferences StepComparison::modules_of(const SideStep& a, const SideStep& b,
                                             std::int64_t step, std::int64_t other,
                                             const StepRounding& rounding) const {
  const auto& [second_a, second_b] = request_.with_modules;
  const bool has_second = second_a && second_b && second_a->has(step) && second_b->has(other);
  return has_second ? compare_modules(*second_a->at(step), *second_b->at(other), rounding)
                    : compare_modules(*a.view, *b.view, rounding);
}

JobSizes StepComparison::sizes_of(const SideStep& a, const SideStep& b) const {
  JobSizes sizes{ranks_};
  for (const SideFiles* side : {&b_, &a_}) side->add_sizes(sizes);
  for (const SideStep* side : {&b, &a}) add_sizes(*side->view, sizes.others);
  return sizes;
}

namespace {

/// As `StepDifference::most_gradients_agree`. A gradient of one element may be constant.
bool do_most_agree(const std::vector<TensorPair>& pairs,
                   const std::vector<TensorDifference>& tensors) {
  constexpr int kEnough = 4;
  int all = 0, agreeing = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const TensorPair& pair = pairs[i];
    const bool is_known = pair.quantity == Compared::gradient && pair.a.elements > 1 &&
                          std::max(pair.a.norm, pair.b.norm) > 0 &&
                          tensors[i].likeness != Likeness::no_evidence;
    if (!is_known) continue;
    ++all;
    if (tensors[i].likeness <= Likeness::rounding) ++agreeing;
  }
  return all >= kEnough && 4 * agreeing >= 3 * all;
}

}  // namespace

void StepComparison::compare_all(const std::vector<TensorPair>& pairs, const SideStep& a,
                                 const SideStep& b, const Noise& noise, StepDifference& found) {
  const JobSizes sizes = sizes_of(a, b);
  const NormsOfAll norms(pairs);
  const GradientScales scales(pairs);
  for (const TensorPair& pair : pairs) {
    const double all = norms.beside(pair);
    TensorDifference one = compare_one(pair, a, b, noise, all, sizes);
    leave_out_noise(pair, scales, one);
    if (pair.quantity == Compared::gradient) note_gradient(pair, one);
    if (!found.undecidable.empty() && one.likeness == Likeness::different) {
      one.likeness = Likeness::undecided;
    }
    follow_gradient(parameter_of(pair), one);
    const bool is_rounding =
        one.quantity == Compared::gradient && one.likeness == Likeness::rounding;
    if (is_rounding) gradients_apart_ = std::max(gradients_apart_, one.relative);
    const bool is_told = one.quantity == Compared::statistic && one.likeness == Likeness::different;
    if (is_told) told_statistics_.insert(one.name);
    found.tensors.push_back(std::move(one));
  }
  leave_out_fused_noise(pairs, found);
  leave_out_scale(found);
  found.most_gradients_agree = do_most_agree(pairs, found.tensors);
}

TensorDifference StepComparison::compare_one(const TensorPair& pair, const SideStep& a,
                                             const SideStep& b, const Noise& noise, double all,
                                             const JobSizes& sizes) {
  switch (pair.quantity) {
    case Compared::update:
      return compare_update(pair, inputs_of(pair, a, b), a, noise, all, sizes);
    case Compared::optimizer_state:
      return compare_state(pair, inputs_of(pair, a, b), noise, all, sizes);
    case Compared::buffer:
    case Compared::statistic:
      return compare_buffer(pair, noise, all, sizes);
    default:
      return compare_observed(pair, noise, all, sizes);
  }
}

void StepComparison::hold_to_bits(const std::vector<TensorPair>& pairs, StepDifference& found) {
  if (!pairs.empty()) found.undecidable.clear();
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TensorDifference& one = found.tensors[i];
    const bool is_open = one.likeness != Likeness::equal && one.likeness != Likeness::different;
    if (!is_open || !pairs[i].a.problem.empty() || !pairs[i].b.problem.empty()) continue;
    one.likeness = Likeness::different;
    one.tolerance = 0;
    one.cause.clear();
  }
}

void StepComparison::leave_out_scale(StepDifference& found) {
  if (!has_scale_ || !found.undecidable.empty()) return;
  const auto factor = common_factor(found);
  const bool has_equal_updates = std::ranges::all_of(found.tensors, [](const auto& one) {
    return one.quantity != Compared::update || one.likeness <= Likeness::no_evidence;
  });
  if (!factor || !has_equal_updates) return;
  gradient_scale_ = factor;
  for (TensorDifference& one : found.tensors) {
    const bool is_scaled =
        one.quantity == Compared::gradient && one.likeness == Likeness::different;
    if (is_scaled) one.likeness = Likeness::rounding;
  }
}

void StepComparison::leave_out_fused_noise(const std::vector<TensorPair>& pairs,
                                           StepDifference& found) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TensorDifference& one = found.tensors[i];
    const bool is_open = one.quantity == Compared::update && one.likeness > Likeness::rounding &&
                         one.ranks.empty() && may_be_noise_in_part(one);
    const GradientsSoFar& gradients = gradients_[one.name];
    const bool agrees = gradients.step == last_ && !gradients.are_equal && !gradients.differ;
    if (!is_open || !agrees || !has_right_weight(i, pairs, found)) continue;
    call_noise("elements of its gradient are 0 up to rounding", one);
    without_evidence_.insert(one.name);
  }
}

bool StepComparison::has_right_weight(std::size_t bias, const std::vector<TensorPair>& pairs,
                                      const StepDifference& found) {
  constexpr std::int64_t kOfWeight = 4;  // times as many elements, at least
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool is_weight = pairs[i].quantity == Compared::update &&
                           module_of(pairs[i].name) == module_of(pairs[bias].name) &&
                           pairs[i].a.elements >= kOfWeight * pairs[bias].a.elements;
    if (is_weight && found.tensors[i].likeness < Likeness::different) return true;
  }
  return false;
}

void StepComparison::leave_out_noise(const TensorPair& pair, const GradientScales& scales,
                                     TensorDifference& one) {
  if (pair.quantity == Compared::gradient && one.likeness != Likeness::equal) {
    const double bound = rounding_of_layouts(pair.a, pair.b, {.roundoff = rounding_.roundoff}).base;
    if (is_without_evidence(pair.a, pair.b, bound, scales.beside(pair.name))) {
      one.likeness = Likeness::no_evidence;
      without_evidence_.insert(pair.name);
    }
  }
  const bool is_noise = follows_gradients(one) && one.likeness > Likeness::rounding &&
                        one.ranks.empty() && without_evidence_.contains(parameter_of(pair));
  if (is_noise || one.likeness == Likeness::no_evidence) {
    call_noise("its gradient is 0 up to rounding", one);
  }
}

void StepComparison::call_noise(const char* cause, TensorDifference& one) {
  one.likeness = Likeness::no_evidence;
  one.cause = cause;
  one.multiple.reset();
  one.kind.reset();
}

TensorDifference StepComparison::compare_observed(const TensorPair& pair, const Noise& noise,
                                                  double all, const JobSizes& sizes) {
  const Bound bound = noise.widened(rounding_of_layouts(pair.a, pair.b, rounding_).bound(),
                                    pair.quantity, pair.name);
  const auto compare = [&](const WholeTensor& value) {
    return compare_values(pair.a, value, bound, all, sizes);
  };
  const bool was_whole = gradients_[pair.name].was_whole;
  TensorDifference of_ranks =
      compare_pair(pair, was_whole ? Likeness::undecided : Likeness::different, compare);
  // Where only norms are known, what is as near as rounding is undecided.
  const bool is_apart = !of_ranks.ranks.empty() && of_ranks.relative > of_ranks.tolerance;
  if (is_apart) gradients_of_ranks_.insert(pair.name);
  if (is_apart && was_whole) {
    of_ranks.kind = FindingKind::gradients_differ;
    return of_ranks;
  }
  TensorDifference found = compare(pair.b);
  found.quantity = pair.quantity;
  found.name = pair.name;
  return found;
}

bool StepComparison::follows_gradients(const TensorDifference& one) {
  return one.quantity == Compared::update || one.quantity == Compared::optimizer_state;
}

void StepComparison::follow_gradient(const std::string& parameter, TensorDifference& one) {
  const bool is_open_gradient =
      one.quantity == Compared::gradient && one.likeness == Likeness::undecided;
  // Of a gradient that ranks of B hold differently, the update says what became of it.
  if (is_open_gradient && !gradients_of_ranks_.contains(one.name)) {
    open_gradients_.insert(one.name);
  }
  const bool is_open = follows_gradients(one) && open_gradients_.contains(parameter);
  if (!is_open || one.likeness != Likeness::different || !one.ranks.empty()) return;
  one.likeness = Likeness::undecided;
  one.cause = "its gradient is undecided";
}

bool StepComparison::hold_copies(const SideStep& b) {
  if (!hold_copies_ && !b.before.all().empty()) {
    hold_copies_ = std::all_of(b.before.all().begin(), b.before.all().end(), [&](const auto& one) {
      const bool is_parameter = one.first.kind == Kind::parameter;
      return !is_parameter || before_step(b.before, one.first.name)->others.empty();
    });
  }
  return hold_copies_.value_or(false);
}

std::string StepComparison::why_unknown(const std::optional<double>& apart,
                                        const std::vector<TensorPair>& pairs,
                                        const std::array<std::string, 2>& reasons) {
  if (pairs.empty()) return "no tensor was observed on both sides";
  if (apart) return "";
  for (std::size_t side = 0; side < reasons.size(); ++side) {
    if (reasons.at(side).empty()) continue;
    return fmt::format("the parameters before it are not known in {}: {}", side == 0 ? "A" : "B",
                       reasons.at(side));
  }
  return "the parameters before it are not known on both sides";
}

bool StepComparison::may_be_all_rounding(const std::vector<TensorPair>& pairs) const {
  return rounding_of_layouts(pairs[0].a, pairs[0].b, rounding_).sum() > kLargestBound;
}

std::string StepComparison::why_far(double apart) {
  return fmt::format(
      "the parameters before it are {:.2g} of their norm apart, so rounding may have become as "
      "large as a fault; `watch --perturb 3` measures it",
      apart);
}

TensorDifference StepComparison::compare_update(const TensorPair& pair, const UpdateInputs& inputs,
                                                const SideStep& a, const Noise& noise, double all,
                                                const JobSizes& sizes) const {
  const WholeTensor* const before = before_step(a.before, pair.name);
  const Bound bound = noise.widened(
      bound_of_update(pair.a, pair.b, before ? *before : pair.a, inputs), pair.quantity, pair.name);
  // Ranks of B that have a gradient of their own, and step by it, reduce it nowhere.
  const bool is_fault = gradients_of_ranks_.contains(pair.name);
  const Likeness least = is_fault ? Likeness::equal : Likeness::different;
  return compare_pair(pair, least, [&](const WholeTensor& value) {
    return compare_updates(pair.a, value, bound, inputs, all, sizes);
  });
}

TensorDifference StepComparison::compare_state(const TensorPair& pair, const UpdateInputs& inputs,
                                               const Noise& noise, double all,
                                               const JobSizes& sizes) {
  const bool counts = pair.name.ends_with(": step");
  const Bound bound =
      noise.widened(bound_of_state(pair.a, pair.b, counts, inputs), pair.quantity, pair.name);
  TensorDifference found = compare_values(pair.a, pair.b, bound, inputs.are_equal ? 0 : all, sizes);
  found.quantity = pair.quantity;
  found.name = pair.name;
  found.has_equal_inputs = inputs.are_equal;
  call_lacking(pair, found);
  // If the gradients agree, no number of ranks or samples is the cause of a multiple.
  if (found.multiple && !inputs.has_other_gradient) {
    found.multiple->causes.clear();
    found.kind.reset();
  }
  return found;
}

/// Buffers follow from the forward passes, by averages, or by comparing numbers that may turn over.
TensorDifference StepComparison::compare_buffer(const TensorPair& pair, const Noise& noise,
                                                double all, const JobSizes& sizes) const {
  const double by_layout = rounding_of_layouts(pair.a, pair.b, rounding_).sum();
  const double within = std::max(by_layout, turned_over(pair.a, gradients_apart_));
  const Bound bound = noise.widened({limit_of(within), {}}, pair.quantity, pair.name);
  TensorDifference found = compare_pair(pair, Likeness::different, [&](const WholeTensor& value) {
    return compare_values(pair.a, value, bound, all, sizes);
  });
  if (found.ranks.empty()) found.ranks = pair.ranks;
  call_lacking(pair, found);
  return found;
}

void StepComparison::note_gradient(const TensorPair& pair, const TensorDifference& found) {
  GradientsSoFar& so_far = gradients_[pair.name];
  so_far.step = last_;
  so_far.are_equal = so_far.are_equal && found.likeness == Likeness::equal;
  so_far.differ = so_far.differ || found.likeness > Likeness::no_evidence;
  const bool is_whole = found.likeness <= Likeness::rounding && pair.b.problem.empty() &&
                        std::max(pair.b.copies, pair.b.parts) > 1;
  so_far.was_whole = so_far.was_whole || is_whole;
  if (found.likeness == Likeness::equal || !so_far.apart) return;
  const auto distance = distance_of(pair.a, pair.b);
  const double norm = std::max(pair.a.norm, pair.b.norm);
  const bool is_known = distance && norm > 0;
  so_far.apart = is_known ? std::optional(std::max(*so_far.apart, *distance / norm)) : std::nullopt;
}

UpdateInputs StepComparison::inputs_of(const TensorPair& pair, const SideStep& a,
                                       const SideStep& b) {
  UpdateInputs inputs;
  inputs.is_by_element = is_by_element_;
  inputs.has_muon = has_muon_;
  inputs.rounding = gradients_apart_;
  double& largest = largest_[{pair.quantity, pair.name}];
  largest = std::max({largest, pair.a.norm, pair.b.norm});
  inputs.largest = largest;
  const std::string parameter = parameter_of(pair);
  GradientsSoFar& gradients = gradients_[parameter];
  if (gradients.step != last_) {  // it was not observed
    gradients.are_equal = false;
    gradients.apart.reset();
  }
  inputs.has_other_gradient = gradients.differ;
  inputs.are_equal = gradients.are_equal && !has_gap_ && has_same_weights(parameter, a, b);
  if (is_from_start_) inputs.own_rounding = gradients.apart;
  return inputs;
}

bool StepComparison::has_same_weights(const std::string& name, const SideStep& a,
                                      const SideStep& b) {
  const WholeTensor* const one = before_step(a.before, name);
  const WholeTensor* const other = before_step(b.before, name);
  return one && other && one->problem.empty() && other->problem.empty() &&
         one->dtype == other->dtype && one->digest && one->digest == other->digest;
}

void StepComparison::note_first(const SideStep& a, const SideStep& b) {
  initial_weights_ = compare_initial_weights(a.before, b.before);
  parameters_ = {names_of(a.tensors), names_of(b.tensors)};
}

std::set<std::string> StepComparison::names_of(const WholeTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [key, tensor] : tensors.all()) {
    if (key.kind == Kind::parameter) names.insert(key.name);
  }
  return names;
}

}  // namespace lockstep
