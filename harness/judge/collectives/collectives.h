#pragma once

#include "harness/judge/collectives/cell_facts.h"

namespace lockstep {

/// Judges whether the ranks' collectives match, by their collective logs. Ranks that died or were
/// stopped leave the claim undecided, because only the calls before that are known to match.
void judge_collectives(const CellFacts& facts, ClaimResult& result);

/// A mismatch as a finding about `claim`.
Finding finding_of_mismatch(const Claim& claim, const CollectiveMismatch& missed);

}  // namespace lockstep
