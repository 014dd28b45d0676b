#pragma once

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Compares a repeated cell with its first run and adds a check of their equality. If all ranks
/// finished, every observation is compared. Otherwise the findings are: claim, step, tensor, groups
/// of ranks, ratio. Both are already judged. `evidence` is null if a cell was not run.
void check_repetition(CellRecord& cell, const StepReader* evidence, const CellRecord& first,
                      const StepReader* first_evidence);

}  // namespace lockstep
