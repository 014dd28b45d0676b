#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/judge/evidence/cell_evidence.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The last steps of tensors that no rank observed until the end, by name.
struct EndedTensors {
  std::map<std::string, std::int64_t> gradients;
  std::map<std::string, std::int64_t> parameters;
};

/// Which parameters of a job were compared between ranks, and why the others were not. A gradient
/// that ended with its parameter is left out.
Coverage coverage_of(const CellEvidence& job, const EndedTensors& ended);

}  // namespace lockstep
