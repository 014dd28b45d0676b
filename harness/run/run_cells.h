#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/formats/screen.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// How the cells of a run are run.
struct RunOptions {
  int jobs = 1;                               ///< cells at a time
  std::chrono::milliseconds limit{0};         ///< of a cell
  const LauncherCommand* launcher = nullptr;  ///< of ranks; null: they are forked
  Verbosity verbosity = Verbosity::overview;  ///< of what is said meanwhile, by LiveReport
  bool fails_fast = false;                    ///< the first failure ends the run
};

/// Runs the cells of `run`, which has them on record, in processes of their own; cells on GPUs run
/// alone, and the references of a scenario begin before its other cells. Saves the record in
/// `folder` as it grows and at the end. Which cell ends first shows nowhere. An Interruption that
/// is noted ends the cells that run, which count as not run, and the rest is not begun. So does the
/// first failure with `fails_fast`; cells that it left out are not applicable, for that reason.
/// Throws what `run_cell` throws, once no rank is left.
void run_cells(const std::vector<PlannedCell>& cells, const RunOptions& options,
               const std::filesystem::path& folder, RunRecord& run);

/// How many cells were run.
std::size_t cells_that_ran(const RunRecord& run);

}  // namespace lockstep
