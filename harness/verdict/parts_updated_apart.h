#pragma once

#include <optional>

#include "harness/judge/evidence/step_reader.h"
#include "harness/verdict/job_fault.h"

namespace lockstep {

/// The fault of a job whose ranks hold parts of a parameter and do not update them alike: a
/// gradient scaler skips a step on some of them, or their optimizers have other hyperparameters.
/// Nothing that ranks hold in common may differ then. Empty: there is none, or ranks have other
/// optimizers.
std::optional<JobFault> parts_updated_apart(const JobRecord& job, const StepReader& evidence);

}  // namespace lockstep
