#pragma once

#include "reports/run_record.h"

namespace lockstep {

/// Holds the findings of a judged cell against its expectation: fills `checks` and `verdict`.
/// Promised tables are not checked here; `check_table` adds them.
void check_expectation(CellRecord& cell);

/// Adds the check of one promised table: `text` says what was not met, empty: all was.
void check_table(CellRecord& cell, const std::string& table, const std::string& text);

}  // namespace lockstep
