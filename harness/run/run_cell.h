#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "harness/launch/launch.h"
#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Puts all cells of a run on record before the first is run, and counts them: a run that is
/// interrupted must not pass for a smaller one. `launcher`: as `--launcher` names it; empty: none.
void plan_cells(RunRecord& run, const std::vector<PlannedCell>& cells,
                const std::string& launcher = {});

/// Runs one cell: starts its ranks, waits for them, and records how they ended. Its files go to the
/// cell's folder inside `run_folder`. A cell that is not applicable is recorded and not run, nor
/// is one in which an Interruption was noted. Does not judge. `limit`: for the whole cell;
/// ranks that are expected to hang end earlier, once they make no progress for the variant's limit.
/// `launcher` starts the ranks, but never a reference;
/// null: they are forked. Throws Error (usage) where it does not start the ranks that the cell has.
CellRecord run_cell(const PlannedCell& planned, const std::filesystem::path& run_folder,
                    std::chrono::milliseconds limit, const LauncherCommand* launcher = nullptr);

/// `limit`, or the shorter one of a cell that is expected to hang: for ranks whose progress nobody
/// watches, those of a foreign launcher.
std::chrono::milliseconds limit_of(const PlannedCell& planned, std::chrono::milliseconds limit);

/// What a rank of the cell does; `folder` is the cell's, `limit` the one that its supervisor has.
std::function<int(const RankPlacement&)> body_of(const PlannedCell& planned,
                                                 const std::filesystem::path& folder,
                                                 std::chrono::milliseconds limit);

/// Completes a record by what the ranks in `record.exits` left in the cell's `folder`: what they
/// said of themselves, and the list of their files. Throws Error (usage) where one had an error
/// that is none of the scenario.
void complete_record(CellRecord& record, const std::filesystem::path& folder);

}  // namespace lockstep
