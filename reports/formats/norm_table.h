#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The rows of a table of Quantity::norm in the layout of the published one: a block per group
/// below the group's heading, the norms of all ranks in brackets. Ends in a newline.
std::string norm_rows_text(const Table& table);

}  // namespace lockstep
