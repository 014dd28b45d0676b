#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// What a job does wrong beside the claims that are judged step by step.
struct JobFault {
  ClaimResult violated;
  Symptom symptom;  ///< of a job whose other claims hold
};

/// The result of a claim that one finding violates.
ClaimResult violated_by(Finding finding);

/// That of a finding about values which ranks agree on, or hold nothing in common of.
Symptom symptom_of_wrong(const Finding& finding, std::string text);

/// Such a finding as a fault. `text`: of its symptom.
JobFault fault_of(Finding finding, std::string text);

}  // namespace lockstep
