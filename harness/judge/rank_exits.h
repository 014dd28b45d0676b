#pragma once

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Judges how the ranks ended. The error of a rank that lost a dead peer is a consequence, not a
/// finding.
void judge_exits(const CellEvidence& cell, const CellFacts& facts, ClaimResult& result);

}  // namespace lockstep
