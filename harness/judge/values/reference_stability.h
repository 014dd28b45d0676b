#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/evidence/cell_evidence.h"
#include "harness/judge/values/expected_values.h"
#include "harness/judge/values/reference_run.h"

namespace lockstep {

/// Whether what the claims of a cell are compared with means something. What one claim is about
/// depends on the others: gradients on the parameters of the step before. Steps are measured when
/// they are first asked for, and once.
class ReferenceStability {
 public:
  /// `run` outlives this.
  ReferenceStability(const CellEvidence& cell, const ReferenceRun& run);

  /// Why nothing can be said of the step of `values`, which are those of `claim`, in words; empty
  /// where the reference is stable up to there.
  std::string instability(const Claim& claim, const ExpectedValues& values);

 private:
  /// The first step whose values mean nothing, of one claim.
  struct Search {
    Claim claim;
    std::size_t next = 0;   ///< of the reference's steps: those before are stable
    std::int64_t step = 0;  ///< that was found; 0: none so far
    Stability stability;    ///< of it
  };

  std::string instability(Search& search, const Claim& claim, const ExpectedValues& values) const;
  void search_until(Search& search, std::int64_t last, const ExpectedValues* known) const;

  const ReferenceRun& run_;
  std::vector<Search> searches_;  ///< one per claim about the reference
};

/// The same of a tensor of a stable step that is off by `distance`: where roundings move it as far
/// as its signal, and what it is off by is nothing beside its step.
std::string instability_of(const ExpectedValues& values, const Observation& expected,
                           double distance);

}  // namespace lockstep
