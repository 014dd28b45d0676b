#pragma once

#include "harness/launch/launcher.h"
#include "harness/run/run_command.h"

namespace lockstep {

/// `lockstep run SCENARIO/VARIANT --out DIR` in a process that a foreign launcher started: is one
/// rank of that cell. Rank 0 also runs the reference, by processes of its own, judges the cell and
/// shows the report. Returns the status of the run; where the process of rank 0 did not come so
/// far, `as_expected` where its own rank finished, else `failed`. Nobody returns before all
/// files are written: some launchers then end the others. Throws Error (usage) for anything that is
/// not exactly one cell of the launcher's world.
ExitStatus direct_start(const RunRequest& request, const std::vector<Scenario>& scenarios,
                        const ForeignPlacement& placement);

/// The same for a launcher that another `lockstep run` started, which has made `cell_folder` and
/// goes on when all ranks are on record: no reference and no record of the run. Returns
/// `as_expected` whatever the end of the rank: that run judges.
ExitStatus be_rank_of_cell(const RunRequest& request, const std::vector<Scenario>& scenarios,
                           const ForeignPlacement& placement);

}  // namespace lockstep
