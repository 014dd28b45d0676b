#include "harness/judge/evidence/step_fold.h"

#include <algorithm>

namespace lockstep {

bool any_wants(const StepFolds& folds, std::int64_t step) {
  return std::any_of(folds.begin(), folds.end(),
                     [&](const StepFold& fold) { return fold.wants(step); });
}

void show(const StepView& step, const StepFolds& folds) {
  for (StepFold& fold : folds) {
    if (fold.wants(step.number())) fold.see(step);
  }
}

void fold_steps(const StepReader& evidence, const StepFolds& folds) {
  for (const std::int64_t step : evidence.steps()) {
    if (any_wants(folds, step)) show(*evidence.at(step), folds);
  }
}

}  // namespace lockstep
