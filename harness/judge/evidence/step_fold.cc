#include "harness/judge/evidence/step_fold.h"

#include <algorithm>

namespace lockstep {

bool any_wants(const StepFolds& folds, std::int64_t step) {
  return std::any_of(folds.begin(), folds.end(),
                     [&](const StepFold& fold) { return fold.wants(step); });
}

void fold_steps(const StepReader& evidence, const StepFolds& folds) {
  for (const std::int64_t number : evidence.steps()) {
    if (!any_wants(folds, number)) continue;
    const auto step = evidence.at(number);
    for (StepFold& fold : folds) {
      if (fold.wants(number)) fold.see(*step);
    }
  }
}

}  // namespace lockstep
