#pragma once

#include <vector>

#include "reports/formats/shown_findings.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What was found of a cell in a few words, without bits. All wrong values of ranks are one
/// finding, the first in execution order; the claims that they break besides are named behind
/// "also". Errors are cut. Whatever the cause above it says is left out.
std::vector<ShownFinding> brief_findings(const CellRecord& cell);

/// The same of a job, which has no heading with a cause.
std::vector<ShownFinding> brief_findings(const JobRecord& job);

}  // namespace lockstep
