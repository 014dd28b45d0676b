#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// The commit of a run that GitHub Actions started; empty: it ran elsewhere.
std::string forge_commit(const RunEnvironment& environment);

/// The address of a page of its repository: "commit/3f9c2a1". Empty: the run does not say which
/// repository it is of, or that is no address of https, and could be markup.
std::string forge_address(const RunEnvironment& environment, const std::string& page);

/// Links to its commit and to the artifacts of its workflow's run, in one line of Markdown. Empty:
/// they are unknown.
std::string forge_links(const RunEnvironment& environment);

}  // namespace lockstep
