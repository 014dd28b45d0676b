#pragma once

#include <string>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// Judges how the ranks ended. The error of a rank that lost a dead peer is a consequence, not a
/// finding.
void judge_exits(const CellEvidence& cell, const CellFacts& facts, ClaimResult& result);

/// "rank 1 ended by itself after step 4, while rank 0 waited for it after step 5". Requires a
/// leaver.
std::string leaving_in_words(const CellFacts& facts);

}  // namespace lockstep
