#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// Computes a table or a peak from the steps of one execution, in the same pass as its claims. Each
/// step is seen at most once, in ascending order.
class StepFold {
 public:
  virtual ~StepFold() = default;

  /// Whether it must see the step even if the indices show that ranks agree in it.
  virtual bool wants(std::int64_t step) const = 0;

  virtual void see(const StepView& step) = 0;
};

using StepFolds = std::vector<std::reference_wrapper<StepFold>>;

bool any_wants(const StepFolds& folds, std::int64_t step);

/// Shows a step to the folds that want it.
void show(const StepView& step, const StepFolds& folds);

/// Shows the folds every step that at least one of them wants. For runs where no claim is judged.
void fold_steps(const StepReader& evidence, const StepFolds& folds);

}  // namespace lockstep
