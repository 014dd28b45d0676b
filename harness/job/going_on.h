#pragma once

#include <filesystem>
#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Whether every cell and job of a run was judged, so that its record has a result.
bool is_judged(const RunRecord& run);

/// Why a run may still write its files: "it still runs". Empty: it has ended. A run that another
/// machine did not finish may go on there, which nobody here can see.
std::string why_going_on(const RunRecord& run, const std::filesystem::path& folder);

}  // namespace lockstep
