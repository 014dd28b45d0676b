#pragma once

#include "reports/record/run_record.h"

namespace lockstep {

/// Compares the findings and the symptom of a judged cell with its expectation: fills `checks` and
/// `verdict`. Promised tables are not checked here; `add_check` adds them.
void check_expectation(CellRecord& cell);

/// Adds the check of one more promise: `text` says why it was not kept; empty: it was.
void add_check(CellRecord& cell, const std::string& promise, const std::string& text);

}  // namespace lockstep
