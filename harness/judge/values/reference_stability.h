#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/reference_run.h"

namespace lockstep {

/// Whether the reference is a meaningful comparison for the claims of a cell. The tensors of one
/// claim depend on those of others: gradients depend on the parameters of the step before. Each
/// step is measured once, on first use.
class ReferenceStability {
 public:
  /// `run` outlives this.
  ReferenceStability(const CellEvidence& cell, const ReferenceRun& run);

  /// Why the reference of `claim` is too unstable in the step of `values`; empty if it is stable up
  /// to there.
  std::string instability(const Claim& claim, const ExpectedValues& values);

 private:
  /// Search for the first unstable step of one claim.
  struct Search {
    Claim claim;
    std::size_t next = 0;   ///< index into the reference's steps: those before are stable
    std::int64_t step = 0;  ///< the unstable step; 0: none so far
    Stability stability;    ///< of that step
  };

  std::string instability(Search& search, const Claim& claim, const ExpectedValues& values) const;
  void search_until(Search& search, std::int64_t last, const ExpectedValues* known) const;

  const ReferenceRun& run_;
  std::vector<Search> searches_;  ///< one per claim about the reference
};

/// The same for a tensor of a stable step that differs by `distance`. It is unstable if rounding
/// moves it as far as its signal and `distance` is negligible in its step.
std::string instability_of(const ExpectedValues& values, const Observation& expected,
                           double distance);

}  // namespace lockstep
