#pragma once

#include "harness/diff/diff_record.h"
#include "harness/judge/evidence/step_view.h"

namespace lockstep {

/// Compares what modules put out in a step, and the gradients that arrive there: rank by rank if
/// each rank has the same samples on both sides or samples are unknown, else by the norms of the
/// outputs of all ranks. `weights_apart`: of the parameters before the step.
ModuleDifferences compare_modules(const StepView& a, const StepView& b, double weights_apart);

}  // namespace lockstep
