#pragma once

#include <string>

#include "reports/record/run_record.h"

namespace lockstep {

/// Links of a run that GitHub Actions started, in one line of Markdown: its commit, and the page of
/// the workflow's run with its artifacts. Empty: it ran elsewhere, or its variables are no address.
std::string forge_links(const RunEnvironment& environment);

}  // namespace lockstep
