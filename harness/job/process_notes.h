#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reports/record/run_record.h"

// What processes of a job note that may be no rank: launchers, and those that end before a step.

namespace lockstep {

/// The error that ended a process of the job before an optimizer stepped in it.
struct ErrorWithoutStep {
  std::string rank;  ///< as the launcher numbers it; empty: it may be no rank
  std::string error;
  std::string place;               ///< in the user's code: "train.py:31"; empty: unknown
  std::vector<std::string> stack;  ///< as `RankExit::stack`
};

/// Those errors, by process. Files that are malformed say nothing.
std::map<std::int64_t, ErrorWithoutStep> errors_without_step(const std::filesystem::path& folder);

/// The first of them: of a rank, if there is one; empty: there is none.
std::string first_error(const std::map<std::int64_t, ErrorWithoutStep>& errors);

/// How far the processes came that say so in `watch.loaded`; unknown if it cannot be read.
Reach reach_of_processes(const std::filesystem::path& folder);

/// The signals that ended processes of the job, as their launchers saw, by process. Files that are
/// malformed say nothing.
std::map<std::int64_t, int> signals_of_processes(const std::filesystem::path& folder);

}  // namespace lockstep
