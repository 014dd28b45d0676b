#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Runs the cells of `run`, which has them on record, up to `jobs` at a time, in processes of their
/// own; cells on GPUs run alone. Saves the record in `folder` as it grows and at the end. Which
/// cell ends first shows nowhere. An Interruption that is noted ends the cells that run, which
/// count as not run, and the rest is not begun. `limit` and `launcher`: as for `run_cell`. Throws
/// what `run_cell` throws, once no rank is left.
void run_cells(const std::vector<PlannedCell>& cells, int jobs, std::chrono::milliseconds limit,
               const LauncherCommand* launcher, const std::filesystem::path& folder,
               RunRecord& run);

/// How many cells were run.
std::size_t cells_that_ran(const RunRecord& run);

}  // namespace lockstep
