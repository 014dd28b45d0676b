#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/values/expected_values.h"

namespace lockstep {

/// What a claim about the reference is compared with, and whether that means something. What one
/// claim is about depends on the others: gradients on the parameters of the step before.
class ReferenceValues {
 public:
  /// Requires a reference. The case outlives this.
  ReferenceValues(const CellEvidence& cell, const Claim& claim);

  /// The values of the claim itself.
  const ExpectedValues& values() const { return values_; }

  /// Why nothing can be said of `step`, in words; empty where the reference is stable up to there.
  std::string instability(std::int64_t step) const;

  /// The same of a tensor of a stable step that is off by `distance`: where roundings move it as
  /// far as its signal, and what it is off by is nothing beside its step.
  std::string instability(const Observation& expected, double distance) const;

 private:
  const std::vector<ExpectedValues>& others() const;

  const CellEvidence& cell_;
  Claim claim_;
  ExpectedValues values_;
  mutable std::optional<std::vector<ExpectedValues>> others_;  ///< built when first asked for
};

}  // namespace lockstep
