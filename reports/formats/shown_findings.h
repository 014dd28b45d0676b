#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A finding in a report, below the cause.
struct ShownFinding {
  const Finding* finding = nullptr;
  std::string sentence;  ///< without the cause that appears above; empty: nothing to add
};

/// The findings about all claims of a cell, in their order. A mismatch of collectives is omitted if
/// the finding about a hang reports it. Ranks that raised the same error in the same step share one
/// finding.
std::vector<ShownFinding> shown_findings(const CellRecord& cell);

/// The same for a job, which has no heading with a cause.
std::vector<ShownFinding> shown_findings(const JobRecord& job);

}  // namespace lockstep
