#pragma once

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/case.h"

namespace lockstep {

/// How the ranks ended. The error of a rank that lost a dead peer is a consequence, no finding.
void judge_endings(const Case& the_case, const CellFacts& facts, ClaimResult& result);

}  // namespace lockstep
