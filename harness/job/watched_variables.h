#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/job/watch_request.h"

namespace lockstep {

/// The parts that the processes of a job load, of this installation or build.
struct HookFiles {
  std::filesystem::path python;   ///< the folder of `sitecustomize`
  std::filesystem::path library;  ///< liblockstep_watch
};

/// Throws Error (usage) if one is not there.
HookFiles find_hook();

/// The environment variables that make the processes of a job load the hook: PYTHONPATH with the
/// hook's folder in front, and LOCKSTEP_WATCH_*. `folder`: of the job's files, absolute; `job`: its
/// id.
std::vector<std::pair<std::string, std::string>> watched_variables(
    const WatchRequest& request, const HookFiles& hook, const std::filesystem::path& folder,
    const std::string& job);

}  // namespace lockstep
