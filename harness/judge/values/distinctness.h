#pragma once

#include <memory>

#include "harness/judge/evidence/claim_fold.h"

namespace lockstep {

/// Whether each rank holds values of its own: no tensor has the same bits on two ranks. Shards at
/// other places are not compared, because their digests depend on the place.
std::unique_ptr<ClaimFold> fold_distinctness(const Claim& claim);

}  // namespace lockstep
