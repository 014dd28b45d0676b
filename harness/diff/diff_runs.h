#pragma once

#include <vector>

#include "harness/diff/diff_request.h"
#include "reports/record/comparison.h"

namespace lockstep {

/// Compares job `b` with job `a`, step by step, until the parameters are too far apart to tell a
/// fault from rounding. `noise`: repetitions of either, which say how far apart runs are that
/// should be equal. Throws Error (usage).
ComparedPair diff_runs(const SideFiles& a, const SideFiles& b,
                       const std::vector<const SideFiles*>& noise, const DiffRequest& request);

}  // namespace lockstep
