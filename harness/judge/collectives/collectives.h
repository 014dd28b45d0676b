#pragma once

#include "harness/judge/collectives/cell_facts.h"

namespace lockstep {

/// What the ranks called, by their collective logs. Ranks that died or were stopped leave it
/// undecided: up to there they matched.
void judge_collectives(const CellFacts& facts, ClaimResult& result);

/// A mismatch as a finding about `claim`.
Finding finding_of_mismatch(const Claim& claim, const CollectiveMismatch& missed);

}  // namespace lockstep
