#pragma once

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Bitwise, whole tensors and equal shards, between the ranks of a replica group.
void judge_agreement(const CellEvidence& cell, ClaimResult& result);

}  // namespace lockstep
