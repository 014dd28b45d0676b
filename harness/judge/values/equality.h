#pragma once

#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Against the reference, within what roundings explain (see expected_values.h).
void judge_equality(const CellEvidence& cell, ClaimResult& result);

}  // namespace lockstep
