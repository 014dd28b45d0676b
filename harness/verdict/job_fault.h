#pragma once

#include "reports/record/run_record.h"

namespace lockstep {

/// What a job does wrong beside the claims that are judged step by step.
struct JobFault {
  ClaimResult violated;
  Symptom symptom;  ///< of a job whose other claims hold
};

/// The result of a claim that one finding violates.
ClaimResult violated_by(Finding finding);

}  // namespace lockstep
