#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judge/collectives/cell_facts.h"
#include "harness/judge/wrong_values.h"

namespace lockstep {

/// The symptom of a judged cell, from known facts: reads no evidence. The cause of a rank's exit
/// takes precedence over wrong values, values over memory, and violated claims over undecided ones.
Symptom symptom_of(const CellFacts& facts, const std::vector<ClaimResult>& results,
                   const WrongValues& values);

/// " after a wrong step 1"; empty if no step before `step` is known to be wrong.
std::string after_wrong_step(std::int64_t wrong_step, std::int64_t step);

/// For a job whose ranks agree on gradients that are no mean of all. `wrong`: the finding.
Symptom symptom_of_reduction(const Finding& wrong);

/// For a cell that was not run. `precondition` is the violated one; empty: the run ended before the
/// cell.
Symptom symptom_of_unrun(const std::string& precondition,
                         const std::optional<NotRun>& not_run = {});

}  // namespace lockstep
