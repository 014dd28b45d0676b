#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "harness/judge/evidence/claim_fold.h"

namespace lockstep {

/// Compares bytes with the reference's of the same step and name, on every rank. Up to a tenth
/// above it holds; beyond kClearFactor tenths is violated. A reference of 0 leaves the claim
/// undecided. The cell has a reference and outlives the fold.
std::unique_ptr<ClaimFold> fold_memory_limit(const CellEvidence& cell, const Claim& claim);

/// The bytes stored in a value of Kind::memory. Empty for null and for anything but a 0-dim whole
/// number from 0 up.
std::optional<std::int64_t> bytes_of(const SnapshotTensor* tensor);

}  // namespace lockstep
