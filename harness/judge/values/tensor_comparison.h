#pragma once

#include <string>
#include <vector>

#include "harness/compare/value_difference.h"
#include "harness/judge/evidence/step_view.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/reference_stability.h"
#include "reports/record/claim.h"

namespace lockstep {

/// One tensor of one rank compared with the reference's.
struct TensorComparison {
  int rank = 0;
  const Observation* actual = nullptr;
  const Observation* expected = nullptr;
  const ExpectedValues* values_of_claim = nullptr;
  Verdict verdict = Verdict::holds;
  double distance = 0;        ///< norm of the difference; NaN if a value is missing or not finite
  std::vector<double> along;  ///< its part along each of the tensor's fault directions
  ValueDifference values;
  std::string structural;  ///< a difference other than the value
  std::string reason;      ///< why undecided, if not because of the difference's size

  /// Computed on first use, because bitwise equal tensors need no tolerance.
  const ExpectedTensor& tensor() const { return values_of_claim->of(*expected); }

  /// A norm as a fraction of the reference's; unchanged if that is 0.
  double relative(double norm) const;

  /// The distance or the nearest fault, whichever is larger in units of its tolerance.
  double margin() const;
};

/// Expected values of one step.
struct ExpectedStep {
  const Claim& claim;
  const ExpectedValues& values;
  ReferenceStability& stability;
};

/// Compares one tensor of one rank. Values that are not finite in the reference, or not stored,
/// leave it undecided. The observations and the values of `step` outlive the result.
TensorComparison compare_with_reference(const StepView& seen, int rank, const Observation& actual,
                                        const Observation& expected, const ExpectedStep& step);

/// Treats the shards of a tensor as one tensor: their total difference is reported for the shard
/// that differs most. Of several copies of a shard the worst counts.
void add_up_shards(const ExpectedStep& step, std::vector<TensorComparison>& comparisons);

}  // namespace lockstep
