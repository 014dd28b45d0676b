#pragma once

#include "harness/cli/run_command.h"
#include "harness/launch/launcher.h"

namespace lockstep {

/// `lockstep run SCENARIO/VARIANT --out DIR` in a process that a foreign launcher started: is one
/// rank of that cell. Rank 0 also runs the reference, by processes of its own, and leaves a record
/// for `lockstep report DIR`. Returns 0 when the end of the rank is on record, whatever it was, so
/// that the launcher lets the others come to theirs; 3 where the cell is not applicable. Throws
/// Error (usage) for anything that is not exactly one cell of the launcher's world.
ExitStatus direct_start(const RunRequest& request, const std::vector<Scenario>& scenarios,
                        const ForeignSeat& seat);

/// The same for a launcher that another `lockstep run` started, which has made `cell_folder` and
/// goes on when all ranks are on record: no reference and no record of the run.
ExitStatus be_rank_of_cell(const RunRequest& request, const std::vector<Scenario>& scenarios,
                           const ForeignSeat& seat);

}  // namespace lockstep
