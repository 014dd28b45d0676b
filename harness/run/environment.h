#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reports/record/run_record.h"

namespace lockstep {

/// Versions, host and the allow-listed environment variables of this process.
RunEnvironment describe_environment(const std::string& started_utc);

/// Of `variables` ("NAME=value") those that a record may hold, sorted, with what looks like a
/// secret masked. All others are left out: a record is pasted into pull requests.
std::vector<std::pair<std::string, std::string>> allowed_variables(
    const std::vector<std::string>& variables);

/// `text` with the credentials of URLs and the values of options that sound secret masked.
std::string mask_secrets(const std::string& text);

/// The name of this machine.
std::string host_name();

}  // namespace lockstep
