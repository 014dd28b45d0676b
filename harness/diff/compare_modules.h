#pragma once

#include "harness/compare/bound.h"
#include "harness/judge/evidence/step_view.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Compares the outputs of modules in a step, and the gradients that arrive there: rank by rank if
/// each rank has the same samples on both sides or samples are unknown, else, or if no output has
/// the same size, by the norms of the outputs of all ranks. `rounding`: of the
/// step.
ModuleDifferences compare_modules(const StepView& a, const StepView& b,
                                  const StepRounding& rounding);

}  // namespace lockstep
