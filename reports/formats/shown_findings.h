#pragma once

#include <string>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// A finding as a report tells it below the cause.
struct ShownFinding {
  const Finding* finding = nullptr;
  std::string sentence;  ///< without the cause that stands above; empty: there is no more to say
};

/// The findings about all claims of a cell, in their order. A mismatch of collectives that the
/// finding about a hang tells is not shown again, and ranks that raised the same error in the same
/// step are told once.
std::vector<ShownFinding> shown_findings(const CellRecord& cell);

/// The same of what has no heading with a cause.
std::vector<ShownFinding> shown_findings(const JobRecord& job);

}  // namespace lockstep
