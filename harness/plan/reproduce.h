#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace lockstep {

/// The arguments after the program name that run only this cell, with Lockstep's own ranks: "run",
/// "scenario/variant", "--ranks", "2", ...
std::vector<std::string> arguments_of(const PlannedCell& planned);

/// "lockstep run scenario/variant --ranks 2 ...": the command that runs only this cell. It names
/// this program as it was called, without its folder, because reports are pasted into pull
/// requests. `launcher`: the argument of `--launcher`; empty: none.
std::string reproducing_command(const PlannedCell& planned, const std::string& launcher = {});

}  // namespace lockstep
