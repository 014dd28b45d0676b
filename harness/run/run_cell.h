#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "harness/launch/launch.h"
#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Records and counts all cells of a run before the first is run, so that an interrupted run cannot
/// pass for a smaller one. `launcher`: the argument of `--launcher`; empty: none.
void plan_cells(RunRecord& run, const std::vector<PlannedCell>& cells,
                const std::string& launcher = {});

/// Runs one cell: starts its ranks, waits for them, and records their exits. Its files go to the
/// cell's folder in `run_folder`. A cell that is not applicable is recorded without a run, as is
/// one during which an Interruption was noted. Does not judge. `limit` is for the whole cell; ranks
/// that are expected to hang end earlier, after the variant's limit without progress. `launcher`
/// starts the ranks, but never a reference; null: they are forked. Throws Error (usage) if it does
/// not start the cell's ranks.
CellRecord run_cell(const PlannedCell& planned, const std::filesystem::path& run_folder,
                    std::chrono::milliseconds limit, const LauncherCommand* launcher = nullptr);

/// `limit`, or the shorter one of a cell that is expected to hang. For ranks of a foreign launcher,
/// whose progress is not monitored.
std::chrono::milliseconds limit_of(const PlannedCell& planned, std::chrono::milliseconds limit);

/// The body of the cell's ranks; `folder` is the cell's, `limit` that of its supervisor.
std::function<int(const RankPlacement&)> body_of(const PlannedCell& planned,
                                                 const std::filesystem::path& folder,
                                                 std::chrono::milliseconds limit);

/// Completes a record from the files of the ranks in `record.exits` in the cell's `folder`: their
/// own status and the list of their files. Throws Error (usage) for an error that the scenario did
/// not cause.
void complete_record(CellRecord& record, const std::filesystem::path& folder);

}  // namespace lockstep
