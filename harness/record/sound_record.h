#pragma once

#include <filesystem>

#include "reports/record/run_record.h"

namespace lockstep {

/// Rejects a well-formed record that no run can have produced. Examples are missing cells or claims
/// that were planned, impossible world sizes or processes, and two cells in one folder. So are a
/// folder outside `folder`, which is that of the run, and a reference that is not one. Throws Error
/// (usage).
void require_sound(const RunRecord& run, const std::filesystem::path& folder);

}  // namespace lockstep
