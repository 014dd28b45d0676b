#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Charts of a drift over its steps, as blocks of mermaid that GitHub and GitLab draw; one for each
/// of the first groups of columns that drift. Empty where a chart shows nothing: another quantity,
/// fewer than three measured steps, or no difference.
std::string drift_charts(const Table& table);

}  // namespace lockstep
