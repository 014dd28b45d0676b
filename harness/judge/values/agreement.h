#pragma once

#include <memory>

#include "harness/judge/evidence/claim_fold.h"

namespace lockstep {

/// Compares whole tensors and equal shards bitwise between the ranks of a replica group. The cell
/// outlives the fold.
std::unique_ptr<ClaimFold> fold_agreement(const CellEvidence& cell, const Claim& claim);

}  // namespace lockstep
