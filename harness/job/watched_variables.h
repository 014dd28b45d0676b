#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/job/watch_request.h"

namespace lockstep {

/// The environment variables that make the processes of a job load the hook: PYTHONPATH with the
/// hook's folder in front, and LOCKSTEP_WATCH_*. `folder`: of the job's files, absolute; `job`: its
/// id. Throws Error (usage) if the library or the hook is not installed.
std::vector<std::pair<std::string, std::string>> watched_variables(
    const WatchRequest& request, const std::filesystem::path& folder, const std::string& job);

}  // namespace lockstep
