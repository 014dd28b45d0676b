#pragma once

#include <cstdint>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Whether any rank reached the place where the variant parts. Where none did, nothing of it was
/// tried, and no claim holds. A record that does not know counts as reached.
bool is_triggered(const std::vector<RankExit>& exits);

/// The first step in which a value was found to be wrong; 0 when none was. Memory is no value, and
/// neither are collectives.
std::int64_t first_damage(const std::vector<ClaimResult>& results);

/// Judges every claim of a case, of which `facts` are known. One result per claim, in order. A
/// judge that throws gives `undecided` with the reason.
std::vector<ClaimResult> judge(const CellEvidence& cell, const CellFacts& facts);

}  // namespace lockstep
