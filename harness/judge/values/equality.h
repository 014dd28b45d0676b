#pragma once

#include <memory>

#include "harness/judge/evidence/claim_fold.h"
#include "harness/judge/values/reference_run.h"
#include "harness/judge/values/reference_stability.h"

namespace lockstep {

/// Compares with the reference, within the rounding tolerance (see expected_values.h). All
/// arguments outlive the fold.
std::unique_ptr<ClaimFold> fold_equality(const CellEvidence& cell, const Claim& claim,
                                         const ReferenceRun& run, ReferenceStability& stability);

}  // namespace lockstep
