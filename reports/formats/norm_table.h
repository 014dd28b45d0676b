#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// A table of Quantity::norm in the layout of the published one: a block of rows per group below
/// the group's heading, the norms of all ranks in brackets. Ends in a newline.
std::string norm_table_text(const Table& table);

}  // namespace lockstep
