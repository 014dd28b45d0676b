#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Host and allow-listed environment variables of this process, and the definition of its digests.
/// The caller adds the versions.
RunEnvironment describe_environment(const std::string& started_utc);

/// The entries of `variables` ("NAME=value") that a record may hold, sorted, with apparent secrets
/// masked. All others are omitted, because records are pasted into pull requests.
std::vector<std::pair<std::string, std::string>> allowed_variables(
    const std::vector<std::string>& variables);

/// The name of this machine.
std::string host_name();

/// A name that only processes of this machine share, since its last boot. Empty: unknown.
std::string boot_id();

}  // namespace lockstep
