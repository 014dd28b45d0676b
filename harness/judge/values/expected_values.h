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

/// A tensor in a step, in the phase of a claim: micro-batch, name.
using TensorKey = std::pair<std::int64_t, std::string>;

TensorKey key_of(const Observation& observation);

/// Whether values of this type carry roundings: floating or complex.
bool is_inexact(const std::string& dtype);

/// How far a value of one tensor may be from the reference's: the L2 norm of the difference. 0 for
/// types without roundings.
struct Tolerance {
  double norm = 0;
  std::string from;  ///< in words
};

/// Of a tensor's signal: a halved one.
inline constexpr double kSmallestFault = 0.5;

/// What a known fault takes from a tensor or adds to it: along the expected value itself (zeroed,
/// halved, doubled, another tensor's), or along what one rank contributes to a gradient (a rank is
/// missing). Roundings of many elements hardly add up along any direction, so that such a fault
/// shows where the norm of the difference alone is within what rounding explains.
struct FaultDirection {
  std::string name;             ///< "the reference", "rank 3's own gradient"
  std::vector<double> numbers;  ///< one per component of the tensor
  double squared_norm = 0;
  double smallest_fault = 0;  ///< as a fraction of the direction: 1/2 when halved, 1/W of a rank
  double tolerance = 0;       ///< as a fraction of the direction
};

/// The reference's value of one tensor in one step, and how far roundings move it.
struct ExpectedTensor {
  double norm = 0;                ///< L2, of the reference's value
  bool is_moved_exactly = false;  ///< of whole numbers: a copy holds others
  double signal = 0;  ///< norm of what training made: of a parameter how far it moved so far, of
                      ///< anything else the value itself
  double moved = 0;   ///< norm, by the worst perturbed copy; infinity where one is not finite
  Tolerance tolerance;
  std::vector<FaultDirection> directions;  ///< the signal first; empty where that is 0
  std::map<int, double> moves;             ///< by copy, along the signal, in units of its square
  bool is_resolved = true;  ///< roundings are small enough for a halved signal to be seen
};

/// Whether the reference's values of a step mean something: they do not where perturbed copies move
/// all tensors together as far as the smallest fault would.
struct Stability {
  double signal = 0;  ///< norm of the signals of all tensors of the step
  double noise = 0;   ///< of all tensors along their signals, as a fraction of `signal`
  std::string worst;  ///< the tensor that contributes most to it
  double moved = 0;   ///< how far copies moved that one, relative to its signal

  bool is_stable() const { return noise <= kSmallestFault; }
};

/// What is off by less than this fraction of its step's signal is no fault where copies of the
/// reference are off by as much as the tensor itself is.
inline constexpr double kNegligible = 0.1;

/// Roundings of its largest element that a healthy parameter may be off by where no copy is.
inline constexpr double kRoundingsOfAParameter = 8;

/// What is explained along a direction, in multiples of what the worst copy moved along it. Less
/// than for norms: only differences as large as the smallest fault are asked about there.
inline constexpr double kDirectionFactor = 5;

/// A fault in a known direction must exceed its tolerance by this factor.
inline constexpr double kFaultFactor = 5;

/// What the reference holds in one step of the tensors that a claim is about, and how far its
/// perturbed copies moved them.
class ExpectedValues {
 public:
  /// `step` is one of the reference's. Both outlive this.
  ExpectedValues(const ReferenceRun& run, const Claim& claim, const StepView& step);

  std::int64_t step() const { return step_.number(); }

  /// By micro-batch and name. What the reference notes of one rank alone is not among them.
  const std::map<TensorKey, const Observation*>& tensors() const { return tensors_; }

  /// The reference's observation of the same tensor; null when it has none.
  const Observation* find(const Observation& actual) const;

  /// What is known of an observation that `find` returned; computed when it is first asked for.
  const ExpectedTensor& of(const Observation& expected) const;

  /// The reference's value of an observation that `find` returned; null where none was kept.
  const SnapshotTensor* value(const Observation& expected) const;

  /// Computed when it is first asked for.
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
  std::map<TensorKey, std::vector<std::pair<int, const Observation*>>> copies_;
  /// What each rank's data alone give, by the name of the gradient.
  std::map<std::string, std::map<int, const Observation*>> own_gradients_;
  mutable std::map<const Observation*, ExpectedTensor> measured_;
  mutable std::optional<Stability> stability_;
};

/// How far the difference of two values (one number per component) goes along each direction, as a
/// fraction of it. `places`: of these components in the whole tensor; empty: they are all of it.
/// What shards go along a direction adds up to what the tensor does.
std::vector<double> along(const ExpectedTensor& expected, const std::vector<double>& actual,
                          const std::vector<double>& reference,
                          const std::vector<std::size_t>& places = {});

/// The direction in which a difference goes as far as the smallest fault would, at least half of
/// it, and farther than rounding explains, by the most tolerances; nothing where there is none.
std::optional<std::size_t> clearest_fault(const ExpectedTensor& expected,
                                          const std::vector<double>& along);

/// The verdict of a difference of this norm that goes along the tensor's directions by `along`;
/// that is empty where it is not known.
Verdict verdict_of(const ExpectedTensor& expected, double norm, const std::vector<double>& along);

}  // namespace lockstep
