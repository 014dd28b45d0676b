#pragma once

#include <vector>

#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// The empty tables of the cells: one per scenario, world size and axis values with a table.
std::vector<Table> empty_tables_of(const std::vector<PlannedCell>& cells);

}  // namespace lockstep
