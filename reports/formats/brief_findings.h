#pragma once

#include <vector>

#include "reports/formats/shown_findings.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// A cell's findings in a few words, without bits. All wrong values of ranks are one finding, the
/// first in execution order; further broken claims follow after "also". Errors are cut. Omits
/// everything that the cause above it says.
std::vector<ShownFinding> brief_findings(const CellRecord& cell);

/// The same for a job, which has no heading with a cause.
std::vector<ShownFinding> brief_findings(const JobRecord& job);

}  // namespace lockstep
