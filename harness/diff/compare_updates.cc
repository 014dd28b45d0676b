#include "harness/diff/compare_updates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/apart.h"
#include "harness/compare/ratio_meaning.h"

namespace lockstep {

namespace {

/// Optimizers that divide by a gradient's own size turn over the signs of elements that are almost
/// 0, as soon as the gradients are not the same bit for bit.
constexpr double kOfUpdates = 0.02;

/// An average of gradients may be as much smaller than they are, and their rounding is not.
constexpr double kCancelled = 10;

/// Elements smaller than their rounding d turn over: of a normal distribution d / pi of them, so
/// the update moves by 1.1 sqrt d, and by more if many gradients are almost 0.
constexpr double kTurnedOver = 2;

/// Singular values of a matrix that are smaller than its rounding d are all noise when they are
/// made alike: of a random square matrix about d of them, and their neighbours in part. Healthy
/// layouts were up to 5.8 sqrt d apart.
constexpr double kMadeAlike = 6;
constexpr double kRoundoffOfMuon = 0x1p-9;  // of bfloat16, in which it computes

/// Of an update that is added to a parameter: each side rounds the parameter twice at most, by its
/// decay and by the addition.
double of_addition(const Value& a, const Value& b, const Value& parameter) {
  const double u = std::max(roundoff_of(a.dtype), roundoff_of(b.dtype));
  const double norm = std::max(a.norm, b.norm);
  return norm > 0 ? 4 * u * parameter.norm / norm : 0;
}

/// Of an optimizer's arithmetic on equal values: about 2 u by kernels that compute in another
/// order, 200 u by those that take powers of the betas in single precision.
double of_arithmetic(const Value& a, const Value& b) {
  return std::min(rounding_of_layouts(a, b, {}).base, kOfUpdates);
}

/// The numbers of an update, and their norm. Requires: both have numbers.
void take_difference(const Value& before, const Value& after, Value& update) {
  std::vector<double> numbers = *after.numbers;
  double squares = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] -= (*before.numbers)[i];
    squares += numbers[i] * numbers[i];
  }
  update.norm = std::sqrt(squares);
  update.numbers = std::make_shared<const std::vector<double>>(std::move(numbers));
}

/// The gradients agree, so no number of ranks or samples is the cause of a multiple.
void name_multiple(double rounding, TensorDifference& one) {
  if (one.multiple) {
    one.multiple.reset();
    one.kind.reset();
  }
  const bool differs = one.likeness >= Likeness::undecided && one.ratio && one.rest;
  if (!differs) return;
  const double precision = std::max(kOverRest * *one.rest, rounding);
  if (precision > kLargestBound) return;
  const double ratio = *one.ratio;
  if (ratio > 0 && std::abs(ratio - 1) > precision) {
    one.multiple = {simple_factor(ratio, precision), precision, {{CauseOfRatio::learning_rate}}};
  } else if (std::abs(ratio + 1) <= precision) {
    one.multiple = {-1, precision, {{CauseOfRatio::sign_flipped}}};
    one.kind = FindingKind::sign_flipped;
  }
}

}  // namespace

double turned_over(const Value& tensor, double rounding) {
  constexpr double kMayBeOne = 0.01;  // by chance; of few elements, one is a large part
  const auto elements = static_cast<double>(tensor.elements);
  const double one = rounding * elements > kMayBeOne ? kOfUpdates + 2 / std::sqrt(elements) : 0;
  return std::max(kTurnedOver * std::sqrt(rounding), one);
}

namespace {

/// Of an update that may be a matrix whose singular values Muon made alike. It is as large whatever
/// its gradient is, and noise is across it, so a multiple is none.
void allow_muon(double rounding, Bound& bound) {
  const double moved = kMadeAlike * std::sqrt(std::max(rounding, kRoundoffOfMuon));
  bound.whole = wider(bound.whole, {moved, 2 * moved});
  bound.multiple = wider(bound.multiple.value_or(Limit()), limit_of(kOfUpdates));
  bound.decides_multiples = true;
}

Bound bound_of_any(const Value& a, const Value& b, const Value& parameter,
                   const UpdateInputs& inputs) {
  const double addition = of_addition(a, b, parameter);
  const double rounding = of_arithmetic(a, b) + addition;
  Bound bound;
  bound.decides_multiples = inputs.is_by_element;
  if (inputs.are_equal) {
    bound.whole = limit_of(inputs.is_by_element ? rounding : kOfUpdates + addition);
    bound.multiple = limit_of(rounding);
    return bound;
  }
  bound.whole = limit_of(addition + std::max(kOfUpdates + kCancelled * inputs.rounding,
                                             turned_over(a, inputs.rounding)));
  const double norm = std::max(a.norm, b.norm);
  if (inputs.own_rounding && !inputs.has_other_gradient && norm > 0) {
    bound.multiple = limit_of(rounding + kCancelled * *inputs.own_rounding *
                                             std::max(inputs.largest / norm, 1.0));
  }
  return bound;
}

}  // namespace

Bound bound_of_update(const Value& a, const Value& b, const Value& parameter,
                      const UpdateInputs& inputs) {
  Bound bound = bound_of_any(a, b, parameter, inputs);
  const bool is_matrix = a.shape && a.shape->size() == 2;
  if (inputs.has_muon && is_matrix && !inputs.has_other_gradient) {
    allow_muon(inputs.rounding, bound);
  }
  return bound;
}

Bound bound_of_state(const Value& a, const Value& b, bool counts, const UpdateInputs& inputs) {
  constexpr double kOfSquares = 2;
  if (counts) return {};
  const double norm = std::max(a.norm, b.norm);
  double rounding = of_arithmetic(a, b);
  if (inputs.are_equal) {
    return {limit_of(inputs.is_by_element ? rounding : kOfUpdates), std::nullopt};
  }
  const double of_gradients = inputs.own_rounding.value_or(inputs.rounding);
  const double cancelled = norm > 0 ? std::max(inputs.largest / norm, 1.0) : 1;
  rounding += kOfSquares * kCancelled * of_gradients * cancelled;
  const bool is_known = inputs.own_rounding && inputs.is_by_element;
  return {limit_of(is_known ? rounding : std::max(rounding, kOfUpdates)), std::nullopt};
}

TensorDifference compare_updates(const Value& a, const Value& b, const Bound& bound,
                                 const UpdateInputs& inputs, double all, const JobSizes& sizes) {
  // The norm of all is for tensors that are noise. Equal gradients are none, however small.
  const bool is_exact = inputs.are_equal && inputs.is_by_element;
  TensorDifference found = compare_values(a, b, bound, is_exact ? 0 : all, sizes);
  if (!inputs.has_other_gradient) {
    name_multiple(bound.multiple ? bound.multiple->within : 0, found);
  }
  found.has_equal_inputs = inputs.are_equal;
  return found;
}

WholeTensor update_of(const WholeTensor& before, const WholeTensor& after) {
  WholeTensor update = after;
  update.digest.reset();
  update.sketch.reset();
  update.numbers.reset();
  update.others.clear();
  update.norm = 0;  // unless it is known
  update.problem = before.problem.empty() ? after.problem : before.problem;
  if (!update.problem.empty()) return update;
  if (before.digest == after.digest && before.digest) {  // it was not updated
    update.sketch = Sketch();
  } else if (before.sketch && after.sketch && before.elements == after.elements) {
    Sketch sketch = *after.sketch;
    sketch -= *before.sketch;
    update.norm = norm_of(sketch);
    update.sketch = sketch;
    if (have_numbers(before, after)) take_difference(before, after, update);
  } else {
    update.problem = "its values before or after the step are not known by a sketch";
  }
  return update;
}

}  // namespace lockstep
