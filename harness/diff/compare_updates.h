#pragma once

#include <optional>

#include "harness/compare/compare_values.h"
#include "harness/diff/whole_tensors.h"

namespace lockstep {

/// What an update follows from, as far as both sides have it alike.
struct UpdateInputs {
  /// The parameter before the step, and its gradients in all steps so far, have the same bits.
  bool are_equal = false;
  /// All optimizers are known to treat each element alone, so no sum is rounded in another order.
  bool is_by_element = false;
  /// Some optimizer is torch's Muon, which makes the singular values of a matrix alike.
  bool has_muon = false;
  /// A gradient of the parameter differs by more than rounding.
  bool has_other_gradient = false;
  double rounding = 0;  ///< the largest distance of any gradient in this step that is rounding
  /// The largest distance of the parameter's gradients so far, over their own norm; absent:
  /// unknown.
  std::optional<double> own_rounding;
  double largest = 0;  ///< norm of the parameter's updates so far, or of the state
};

/// How far a tensor moves in which the signs of elements turn over that are smaller than their
/// rounding, relative to its norm. `rounding`: relative.
double turned_over(const Value& tensor, double rounding);

/// How far two updates are apart by rounding, relative to their norm. `parameter`: before the step.
Bound bound_of_update(const Value& a, const Value& b, const Value& parameter,
                      const UpdateInputs& inputs);

/// How far two states that an optimizer keeps of a parameter are apart by rounding, relative to
/// their norm. They follow from the gradients so far, or from their squares.
/// `counts`: a number of steps, which rounds nowhere.
Bound bound_of_state(const Value& a, const Value& b, bool counts, const UpdateInputs& inputs);

/// Compares an update of B with that of A. `all` and `sizes` as of `compare_values`.
TensorDifference compare_updates(const Value& a, const Value& b, const Bound& bound,
                                 const UpdateInputs& inputs, double all, const JobSizes& sizes);

/// `after` - `before`, by sketches. Without both it has a problem.
WholeTensor update_of(const WholeTensor& before, const WholeTensor& after);

}  // namespace lockstep
