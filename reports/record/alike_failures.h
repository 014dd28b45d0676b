#pragma once

#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// The ranks that failed in the same step with the same error as the rank of `finding`, ascending.
/// Only that rank if it had no error. Requires: a finding of `execution` with a failure.
std::vector<int> ranks_failing_alike(const Execution& execution, const Finding& finding);

}  // namespace lockstep
