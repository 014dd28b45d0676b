#pragma once

#include <set>
#include <string>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Which parameters of a job were compared between ranks, and why the others were not. `unshared`:
/// names that are not judged (`unshared_tensors`).
Coverage coverage_of(const StepReader& evidence, const std::set<std::string>& unshared);

}  // namespace lockstep
