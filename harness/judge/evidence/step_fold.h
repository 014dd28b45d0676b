#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/judge/evidence/step_reader.h"

namespace lockstep {

/// What is made of the steps of one execution beside its claims, in the same pass: a table, a peak.
/// Each step is seen at most once, in ascending order.
class StepFold {
 public:
  virtual ~StepFold() = default;

  /// Whether it has to see the step, although ranks agree in it by their indices.
  virtual bool wants(std::int64_t step) const = 0;

  virtual void see(const StepView& step) = 0;
};

using StepFolds = std::vector<std::reference_wrapper<StepFold>>;

/// Whether one of them wants the step.
bool any_wants(const StepFolds& folds, std::int64_t step);

/// Shows a step to those that want it.
void show(const StepView& step, const StepFolds& folds);

/// Shows them the steps that one of them wants; where nothing is judged.
void fold_steps(const StepReader& evidence, const StepFolds& folds);

}  // namespace lockstep
