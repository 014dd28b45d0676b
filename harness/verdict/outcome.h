#pragma once

#include <string>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/evidence/cell_evidence.h"

namespace lockstep {

/// What a judged cell came to: `facts` are those of `cell`, `results` those that `judge` made.
/// What ended a rank counts before what is wrong with values, values before memory, and what is
/// violated before what is undecided.
CellOutcome outcome_of(const CellEvidence& cell, const CellFacts& facts,
                       const std::vector<ClaimResult>& results);

/// Of a cell that was not run. `precondition` is the one that is violated; empty: the run ended
/// before the cell.
CellOutcome outcome_of_unrun(const std::string& precondition,
                             const std::optional<NotRun>& not_run = {});

}  // namespace lockstep
