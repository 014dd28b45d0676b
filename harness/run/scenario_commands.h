#pragma once

#include <string>
#include <vector>

#include "harness/cli/command.h"
#include "harness/scenario/scenario.h"

namespace lockstep {

/// `list`, `show`, `run`, and a `doctor` that starts two ranks. `typed`: the command line, for the
/// record. Requires: `scenarios` outlive the commands.
std::vector<Command> scenario_commands(const std::vector<Scenario>& scenarios,
                                       const std::vector<std::string>& typed);

}  // namespace lockstep
