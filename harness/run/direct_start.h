#pragma once

#include "harness/launch/launcher.h"
#include "harness/run/run_command.h"

namespace lockstep {

/// `lockstep run SCENARIO/VARIANT --out DIR` in a process of a foreign launcher: becomes one rank
/// of that cell. Rank 0 also runs the reference in its own processes, judges the cell and shows the
/// report. Returns the status of the run. If rank 0 did not get that far, returns `as_expected` if
/// its own rank finished, otherwise `failed`. No process returns before all files are written,
/// because some launchers then end the others. Throws Error (usage) for anything but exactly one
/// cell of the launcher's world.
ExitStatus direct_start(const RunRequest& request, const std::vector<Scenario>& scenarios,
                        const ForeignPlacement& placement);

/// The same for a launcher that another `lockstep run` started. That run has created `cell_folder`
/// and continues once all ranks are on record. So there is no reference and no record of the run.
/// Returns `as_expected` for every exit of the rank, because that run judges.
ExitStatus be_rank_of_cell(const RunRequest& request, const std::vector<Scenario>& scenarios,
                           const ForeignPlacement& placement);

}  // namespace lockstep
