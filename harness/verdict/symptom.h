#pragma once

#include <string>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/wrong_values.h"

namespace lockstep {

/// What a judged cell came to, of what is known of it: no evidence is read.
/// What ended a rank counts before what is wrong with values, values before memory, and what is
/// violated before what is undecided.
Symptom symptom_of(const CellFacts& facts, const std::vector<ClaimResult>& results,
                   const WrongValues& values);

/// Of a cell that was not run. `precondition` is the one that is violated; empty: the run ended
/// before the cell.
Symptom symptom_of_unrun(const std::string& precondition,
                         const std::optional<NotRun>& not_run = {});

}  // namespace lockstep
