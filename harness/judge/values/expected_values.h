#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/values/reference_run.h"

namespace lockstep {

/// A tensor in a step, in the phase of a claim: micro-batch and name.
using TensorKey = std::pair<std::int64_t, std::string>;

TensorKey key_of(const Observation& observation);

/// Whether values of this type are rounded: floating or complex.
bool is_inexact(const std::string& dtype);

/// Allowed distance of a tensor from the reference, as the L2 norm of the difference. 0 for types
/// without rounding.
struct Tolerance {
  double norm = 0;
  std::string from;  ///< its origin, in words
};

/// As a fraction of a tensor's signal: half of it is lost.
inline constexpr double kSmallestFault = 0.5;

/// Direction in which a known fault changes a tensor. A zeroed, halved or doubled tensor, or
/// another one, changes it along the expected value. A missing rank changes a gradient along that
/// rank's contribution. Roundings of many elements hardly add up along any direction. So such a
/// fault is visible even if the norm of the difference is within the rounding tolerance.
struct FaultDirection {
  std::string name;             ///< "the reference", "rank 3's own gradient"
  std::vector<double> numbers;  ///< one per component of the tensor
  double squared_norm = 0;
  double smallest_fault = 0;  ///< as a fraction of the direction: 1/2 if halved, 1/W for a rank
  double tolerance = 0;       ///< as a fraction of the direction
};

/// The reference's value of one tensor in one step, and its sensitivity to rounding.
struct ExpectedTensor {
  double norm = 0;                ///< L2 norm of the reference's value
  bool is_moved_exactly = false;  ///< whole numbers that differ in a copy
  double signal = 0;  ///< norm of the result of training: of a parameter its change so far, of all
                      ///< else the value itself
  double moved = 0;   ///< norm, for the worst perturbed copy; infinity if one is not finite
  Tolerance tolerance;
  std::vector<FaultDirection> directions;  ///< the signal first; empty if that is 0
  std::map<int, double> moves;             ///< by copy, along the signal, in units of its square
  bool is_resolved = true;                 ///< rounding is small enough to reveal a halved signal
};

/// Whether the reference's values of a step are meaningful. They are not if perturbed copies move
/// all tensors together as far as the smallest fault would.
struct Stability {
  double signal = 0;  ///< norm of the signals of all tensors of the step
  double noise = 0;   ///< of all tensors along their signals, as a fraction of `signal`
  std::string worst;  ///< the tensor with the largest share
  double moved = 0;   ///< its movement in the copies, relative to its signal

  bool is_stable() const { return noise <= kSmallestFault; }
};

/// A difference below this fraction of its step's signal is no fault, if copies of the reference
/// differ by as much as the tensor itself.
inline constexpr double kNegligible = 0.1;

/// Allowed error of a healthy parameter that no copy moves, in roundings of its largest element.
inline constexpr double kRoundingsOfAParameter = 8;

/// Tolerance along a direction, in multiples of the worst copy's movement along it. It is smaller
/// than for norms, because only differences as large as the smallest fault are tested there.
inline constexpr double kDirectionFactor = 5;

/// A fault in a known direction must exceed its tolerance by this factor.
inline constexpr double kFaultFactor = 5;

/// The reference's tensors for a claim in one step, and how far the perturbed copies moved them.
class ExpectedValues {
 public:
  /// `step` belongs to the reference. Both arguments outlive this.
  ExpectedValues(const ReferenceRun& run, const Claim& claim, const StepView& step);

  std::int64_t step() const { return step_.number(); }

  /// By micro-batch and name. Tensors that the reference recorded for one rank alone are excluded.
  const std::map<TensorKey, const Observation*>& tensors() const { return tensors_; }

  /// The reference's observation of the same tensor; null when it has none.
  const Observation* find(const Observation& actual) const;

  /// Details of an observation returned by `find`; computed on first use.
  const ExpectedTensor& of(const Observation& expected) const;

  /// The reference's snapshot of an observation returned by `find`; null if there is none.
  const SnapshotTensor* value(const Observation& expected) const;

  /// Computed on first use.
  const Stability& stability() const;

 private:
  using Numbers = std::vector<double>;

  void note_copy(int rank, const Claim& claim);
  std::map<int, const SnapshotTensor*> copies_of(const Observation& expected) const;
  bool is_moved(const Observation& expected) const;
  bool is_frozen(const Observation& expected) const;
  ExpectedTensor measured(const Observation& expected) const;
  void measure_norms(const Observation& expected, const SnapshotTensor* value, double least,
                     ExpectedTensor& tensor) const;
  void add_directions(const Observation& expected, const SnapshotTensor& value,
                      const Numbers& numbers, double scale, ExpectedTensor& tensor) const;
  void set_tolerances(const Observation& expected, const SnapshotTensor& value,
                      const Numbers& numbers, const Numbers& magnitudes, double least_along,
                      ExpectedTensor& tensor) const;
  std::optional<Numbers> initial_value(const Observation& expected, std::size_t elements) const;
  const SnapshotTensor* moved_parameter(const Observation& update) const;
  Numbers magnitudes_of(const Observation& expected, Numbers value) const;
  std::optional<Numbers> signal_of(const Observation& expected, const Numbers& value) const;
  const SnapshotTensor* own_gradient(const Observation& expected, int rank) const;
  double summands_norm(const Observation& expected) const;
  double scale_of_own_gradients(const Observation& expected) const;
  double least_tolerance(const Observation& expected, const Numbers& magnitudes, double norm,
                         double scale, double summation) const;
  Stability measured_stability() const;

  const ReferenceRun& run_;
  const StepView& step_;
  bool has_moved_ = false;
  std::map<TensorKey, const Observation*> tensors_;
  std::map<std::string, const Observation*> moved_;  ///< parameters of updates, by name
  std::map<TensorKey, std::vector<std::pair<int, const Observation*>>> copies_;
  /// The gradients from each rank's data alone, by the name of the gradient.
  std::map<std::string, std::map<int, const Observation*>> own_gradients_;
  mutable std::map<const Observation*, ExpectedTensor> measured_;
  mutable std::optional<Stability> stability_;
};

/// Length of the difference of two values along each direction, as a fraction of the direction.
/// Values have one number per component. `places`: indices of these components in the whole tensor;
/// empty: they are all of it. The results of all shards add up to that of the tensor.
std::vector<double> along(const ExpectedTensor& expected, const std::vector<double>& actual,
                          const std::vector<double>& reference,
                          const std::vector<std::size_t>& places = {});

/// The direction along which a difference most clearly shows a fault: it exceeds its tolerance by
/// the largest factor. The difference must exceed the tolerance and reach at least half of the
/// smallest fault. Empty if no direction qualifies.
std::optional<std::size_t> clearest_fault(const ExpectedTensor& expected,
                                          const std::vector<double>& along);

/// The verdict on a difference of this norm and these fractions `along` the tensor's directions.
/// `along` is empty if unknown.
Verdict verdict_of(const ExpectedTensor& expected, double norm, const std::vector<double>& along);

}  // namespace lockstep
