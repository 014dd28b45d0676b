#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Why a text is no regular expression of RE2; empty: it is one.
std::string fault_in_pattern(const std::string& pattern);

/// Whether an error of the job is the one that its user expects: `--expect raises=REGEX`. Errors
/// that only tell that another rank had gone are none.
bool has_expected_error(const JobRecord& job);

}  // namespace lockstep
