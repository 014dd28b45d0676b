#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/judge/evidence/claim_fold.h"
#include "reports/record/execution.h"

namespace lockstep {

/// Judges that the ranks agree in at least one of `agree_every` steps in a row, as with LocalSGD,
/// whose ranks train apart and average their parameters now and then. A step that was not observed
/// begins the count again. In the first step of a job they have to agree. The cell outlives the
/// fold.
std::unique_ptr<ClaimFold> fold_periodic_agreement(const CellEvidence& cell, const Claim& claim);

/// That ranks agree again and again which differ.
struct AgreementAgain {
  std::int64_t period = 1;  ///< steps
  Phase phase = Phase::pre_forward;
  std::vector<std::int64_t> steps;  ///< in which they agree, ascending

  /// "the parameters agree again every 4 steps (before step 5, 9, 13), ...".
  std::string in_words() const;
};

/// Empty: they do not, or not regularly, as far as was observed. Ranks observe parameters before a
/// step in their first steps, and once differences are known.
std::optional<AgreementAgain> agreement_again(const CellEvidence& cell,
                                              const std::vector<ClaimResult>& results);

}  // namespace lockstep
