#pragma once

#include <cstddef>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// GitHub shows no more annotations of one kind and step.
inline constexpr std::size_t kMostAnnotations = 10;

/// Annotations of what is not as expected: workflow commands of GitHub Actions, one a line,
/// failures first. If these are more than kMostAnnotations, the last one counts the others. The
/// place is a cell's branch point or, for a job, the line of the mismatched call. Text from outside
/// cannot end a command or begin another one.
std::string annotations(const RunRecord& run);

}  // namespace lockstep
