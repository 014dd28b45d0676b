#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/judge/evidence/step_reader.h"
#include "reports/record/run_record.h"

namespace lockstep {

/// What a step of a cell cost, from the collective logs in `folder` and the ranks' own times:
/// collectives called in a step, their bytes, of the rank with most of them. Ranks
/// without logs never met and called none; what is called before the first step is no part of it.
/// Absent when a rank did not finish, and when some of the logs are missing. Throws Error (usage)
/// for a malformed log.
std::optional<Cost> cost_of(const std::filesystem::path& folder, const std::vector<RankExit>& exits,
                            std::int64_t steps);

/// The most bytes that any rank observed as Kind::memory in any step; absent when none did.
std::optional<std::int64_t> memory_of(const StepReader& evidence);

}  // namespace lockstep
