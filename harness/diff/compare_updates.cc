#include "harness/diff/compare_updates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

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

/// Of an update that is added to a parameter: each side rounds the parameter twice at most, by its
/// decay and by the addition.
double of_addition(const WholeTensor& a, const WholeTensor& b, const WholeTensor& parameter) {
  const double u = std::max(roundoff_of(a), roundoff_of(b));
  const double norm = std::max(a.norm, b.norm);
  return norm > 0 ? 4 * u * parameter.norm / norm : 0;
}

/// Of an optimizer's arithmetic on equal values: about 2 u by kernels that compute in another
/// order, 200 u by those that take powers of the betas in single precision.
double of_arithmetic(const WholeTensor& a, const WholeTensor& b) {
  return std::min(bound_of(a, b, {}).base, kOfUpdates);
}

/// The simplest number that a ratio may be: 2, 1/2, 3/4, or 1.15, which is it to 4 digits.
double simple_factor(double ratio, double precision) {
  constexpr double kOfFractions = 1e-3;  // every number has a fraction this close
  constexpr double kOfWholeNumbers = 0.02;
  for (int below = 1; below <= 16 && precision <= kOfWholeNumbers; ++below) {
    const double above = std::round(ratio * below);
    const bool is_simple = above == 1 || below == 1 || precision <= kOfFractions;
    if (!is_simple || above < 1 || above > 16) continue;
    if (std::abs(ratio - above / below) > precision * ratio) continue;
    return above / below;
  }
  return std::stod(fmt::format("{:.4g}", ratio));
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

UpdateBound bound_of_update(const WholeTensor& a, const WholeTensor& b,
                            const WholeTensor& parameter, const UpdateInputs& inputs) {
  const double addition = of_addition(a, b, parameter);
  const double rounding = of_arithmetic(a, b) + addition;
  UpdateBound bound;
  if (inputs.are_equal) {
    bound.whole = inputs.is_by_element ? rounding : kOfUpdates + addition;
    bound.multiple = rounding;
    return bound;
  }
  bound.whole = addition + std::max(kOfUpdates + kCancelled * inputs.rounding,
                                    kTurnedOver * std::sqrt(inputs.rounding));
  const double norm = std::max(a.norm, b.norm);
  if (inputs.own_rounding && !inputs.has_other_gradient && norm > 0) {
    bound.multiple =
        rounding + kCancelled * *inputs.own_rounding * std::max(inputs.largest / norm, 1.0);
  }
  return bound;
}

TensorDifference compare_updates(const WholeTensor& a, const WholeTensor& b,
                                 const UpdateBound& bound, const UpdateInputs& inputs, double all,
                                 const JobSizes& sizes) {
  // The norm of all is for tensors that are noise. Equal gradients are none, however small.
  const bool is_exact = inputs.are_equal && inputs.is_by_element;
  TensorDifference found = compare_tensors(a, b, bound.whole, is_exact ? 0 : all, sizes);
  if (bound.multiple) judge_multiple(a, b, *bound.multiple, inputs.is_by_element, found);
  if (!inputs.has_other_gradient) name_multiple(bound.multiple.value_or(0), found);
  found.has_equal_inputs = inputs.are_equal;
  return found;
}

}  // namespace lockstep
