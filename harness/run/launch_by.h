#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

#include "harness/launch/launcher_command.h"
#include "harness/plan/plan.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// Has `launcher` start the ranks of a cell, each of them this program as `OneRank`, waits for them
/// and ends what it left. Its output goes to `launcher.log` in the cell's folder. `limit` is that
/// of the ranks. Throws Error (usage), with the launcher's last words, where no rank came into
/// being or the world is of another size.
std::vector<RankExit> launch_by(const LauncherCommand& launcher, const PlannedCell& planned,
                                const std::filesystem::path& folder,
                                std::chrono::milliseconds limit);

}  // namespace lockstep
