#pragma once

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Holds a cell that was run again against its first run and adds a check that says whether they
/// are the same: every observation where all ranks finished, else the findings (claim, step,
/// tensor, groups of ranks, ratio). Both are judged already. `evidence` is null where a cell was
/// not run.
void check_repetition(CellRecord& cell, const StepReader* evidence, const CellRecord& first,
                      const StepReader* first_evidence);

}  // namespace lockstep
