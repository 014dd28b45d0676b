#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// How a finding of `cell` differs from `pin`: "expected ratio 2 (1.998 to 2.002), found 1.7".
/// Empty: it matches.
std::string departure(const Pin& pin, const Finding& finding, const CellRecord& cell);

/// The missing part of a faulty cell's expectation, in words: its symptom, or the properties that
/// identify the fault. Empty: nothing is missing.
std::string open_part(const Expectation& expectation);

}  // namespace lockstep
