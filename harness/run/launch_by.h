#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Lets `launcher` start the ranks of a cell, each of them this program as `OneRank`. Waits for
/// them and ends leftover processes. The launcher's output goes to `launcher.log` in the cell's
/// folder. `limit` applies to the ranks. Throws Error (usage), with the launcher's last words, if
/// no rank was started or the world has another size.
std::vector<RankExit> launch_by(const LauncherCommand& launcher, const PlannedCell& planned,
                                const std::filesystem::path& folder,
                                std::chrono::milliseconds limit);

}  // namespace lockstep
