#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The last steps of tensors that no rank observed until the end, by name.
struct EndedTensors {
  std::map<std::string, std::int64_t> gradients;
  std::map<std::string, std::int64_t> parameters;
};

/// Which parameters of a job were compared between ranks, and why the others were not. `unshared`:
/// names that are not judged (`unshared_tensors`). A gradient that ended with its parameter is left
/// out.
Coverage coverage_of(const StepReader& evidence, const std::set<std::string>& unshared,
                     const EndedTensors& ended);

}  // namespace lockstep
