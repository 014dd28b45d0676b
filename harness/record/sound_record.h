#pragma once

#include <filesystem>

#include "reports/record/run_record.h"

namespace lockstep {

/// Refuses a record that is well-formed and cannot be of a run: cells or claims that were planned
/// and are missing, worlds and processes that no run has, two cells in one folder, a folder that
/// does not lie inside that of the run, a reference that is none. `folder` is that of the run.
/// Throws Error (usage).
void require_sound(const RunRecord& run, const std::filesystem::path& folder);

}  // namespace lockstep
