#pragma once

#include <chrono>
#include <filesystem>

#include "harness/cli/select_cells.h"
#include "reports/run_record.h"

namespace lockstep {

/// The record of a cell that has not been run.
CellRecord describe(const PlannedCell& planned);

/// Runs one cell: starts its ranks, waits for them, and records how they ended. Its files go to the
/// cell's folder inside `run_folder`. A cell that is not applicable is recorded and not run. Does
/// not judge. `limit`: for the whole cell, where its variant does not declare a shorter one.
CellRecord run_cell(const PlannedCell& planned, const std::filesystem::path& run_folder,
                    std::chrono::milliseconds limit);

}  // namespace lockstep
