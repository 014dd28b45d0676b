#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/formats/screen.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Options for running the cells of a run.
struct RunOptions {
  int jobs = 1;                               ///< cells at a time
  std::chrono::milliseconds limit{0};         ///< of a cell
  const LauncherCommand* launcher = nullptr;  ///< of ranks; null: they are forked
  Verbosity verbosity = Verbosity::overview;  ///< of LiveReport's output meanwhile
  bool fails_fast = false;                    ///< the first failure ends the run
};

/// Runs the recorded cells of `run` in separate processes. Cells on GPUs run alone, and the
/// references of a scenario start before its other cells. Saves the record in `folder` as it grows
/// and at the end. The record does not depend on which cell ends first. An Interruption ends the
/// running cells, which count as not run, and starts no others. The first failure does the same
/// with `fails_fast`; the cells left out are not applicable for that reason. Passes on exceptions
/// of `run_cell` once no rank is left.
void run_cells(const std::vector<PlannedCell>& cells, const RunOptions& options,
               const std::filesystem::path& folder, RunRecord& run);

/// The number of cells that were run.
std::size_t cells_that_ran(const RunRecord& run);

}  // namespace lockstep
